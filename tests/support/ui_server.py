"""A `rouse ui` for tests: started on a free port, asked, and ended."""
import contextlib
import http.client
import json
import select
import subprocess

import pytest
from processes import end_process

HOSTILE = "</script><script>alert(1)</script>\x1b[31m\"'&"  # a name of a run


class Ui:
    def __init__(self, process, ready):
        self.process, self.ready, self.port = process, ready, ready["port"]

    def ask(self, path, method="GET", headers=None, host=None):
        connection = http.client.HTTPConnection(self.ready["host"], self.port, timeout=20)
        connection.putrequest(method, path, skip_host=True)
        if host != "":
            connection.putheader("Host", host or f"{self.ready['host']}:{self.port}")
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer, body


@contextlib.contextmanager
def ui_servers(rouse, environment, tmp_path):
    """start(*arguments) -> Ui; all of them are ended at the end."""
    started = []

    def start(*arguments) -> Ui:
        log = tmp_path / f"ui-{len(started)}.log"
        with open(log, "wb") as stream:
            process = subprocess.Popen(
                [str(rouse), "ui", *([] if "--port" in arguments else ["--port", "0"]), "--json",
                 *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stream, text=True,
                env=environment)
        started.append(process)
        ready, _, _ = select.select([process.stdout], [], [], 20)
        assert ready, log.read_text()
        return Ui(process, json.loads(process.stdout.readline()))

    try:
        yield start
    finally:
        for process in started:
            end_process(process)


def pages_are_there(run_rouse) -> None:
    """Skips where the build has no pages on purpose (-DROUSE_WEB=OFF)."""
    if "without the report page" in run_rouse("report", "--html", "/dev/null").stderr:
        pytest.skip("this rouse was built without the report page")
