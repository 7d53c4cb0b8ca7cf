"""`rouse ui` as a browser meets it: the list, a run's page, events while a run is being measured by
another process, and what it refuses."""
import http.client
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = ROOT / "docs" / "examples" / "quick.jsonl"
EXIT_TIMEOUT_S = 20
HOSTILE = "</script><script>alert(1)</script>\x1b[31m\"'&"


def end_process(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(EXIT_TIMEOUT_S)
    if process.stdout:
        process.stdout.close()


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


@pytest.fixture
def start_ui(rouse, environment, tmp_path):
    started = []

    def start(*arguments) -> Ui:
        log = tmp_path / f"ui-{len(started)}.log"
        with open(log, "wb") as stream:
            process = subprocess.Popen(
                [str(rouse), "ui", "--port", "0", "--json", *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stream, text=True,
                env=environment)
        started.append(process)
        ready, _, _ = select.select([process.stdout], [], [], 20)
        assert ready, log.read_text()
        return Ui(process, json.loads(process.stdout.readline()))

    yield start
    for process in started:
        end_process(process)


class Events:
    """What /events says, read by a thread; `wait` blocks until a message fits."""

    def __init__(self, ui: Ui):
        self.socket = socket.create_connection((ui.ready["host"], ui.port), timeout=60)
        self.socket.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{ui.port}\r\n\r\n".encode())
        self.changed = threading.Condition()
        self.messages, self.ended = [], False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        text = b""
        try:
            while part := self.socket.recv(65536):
                text += part
                lines = text.split(b"\n")
                text = lines.pop()
                for line in lines:
                    if line.startswith(b"event: "):
                        self.name = line[7:].decode()
                    if line.startswith(b"data: "):
                        with self.changed:
                            self.messages.append((self.name, json.loads(line[6:])))
                            self.changed.notify_all()
        except OSError:
            pass
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait(self, fits, timeout=30):
        with self.changed:
            assert self.changed.wait_for(lambda: any(map(fits, self.messages)), timeout), \
                self.messages
            return next(filter(fits, self.messages))

    def close(self):
        self.socket.close()


def test_list_page_and_files_have_their_policy(start_ui, run_rouse):
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    assert ui.ready["schema"] == "rouse.ready/1"
    for path, kind in (("/", "text/html"), ("/ui.css", "text/css"), ("/ui.js", "text/javascript")):
        answer, body = ui.ask(path)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith(kind)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Access-Control-Allow-Origin"] is None
        assert body
    assert "<script>" not in ui.ask("/")[1]  # none inline


def test_lists_runs_as_json_with_an_etag(start_ui, run_rouse):
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    answer, body = ui.ask("/api/runs")
    assert json.loads(body) == run_rouse("list", "--json").json()
    tag = answer.headers["ETag"]
    again, nothing = ui.ask("/api/runs", headers={"If-None-Match": tag})
    assert again.status == 304 and nothing == ""
    run_rouse("import", QUICK, "--quiet")
    new, body = ui.ask("/api/runs", headers={"If-None-Match": tag})
    assert new.status == 200 and new.headers["ETag"] != tag
    assert len(json.loads(body)["runs"]) == 2


def test_opens_a_run_and_its_data(start_ui, run_rouse):
    run_rouse("import", QUICK, "--quiet", "--name", HOSTILE)
    ui = start_ui()
    answer, page = ui.ask("/runs/1")
    assert answer.status == 200
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    if answer.headers["Content-Type"].startswith("text/html"):
        assert "/api/runs/1" in page and "<script>alert" not in page
    answer, body = ui.ask("/api/runs/1")
    data = json.loads(body)
    assert data["schema"] == "rouse.page/1"
    assert ui.ask("/api/runs/1", headers={"If-None-Match": answer.headers["ETag"]})[0].status == 304


@pytest.mark.parametrize("path, status", [
    ("/runs/99", 404), ("/api/runs/99", 404), ("/runs/x", 404), ("/runs/-1", 404),
    ("/nothing", 404),
    ("/runs/1/../../etc/passwd", 404), ("/../../etc/passwd", 404),
    ("/runs/99999999999999999999", 404)])
def test_unknown_paths_are_404(start_ui, run_rouse, path, status):
    run_rouse("import", QUICK, "--quiet")
    assert start_ui().ask(path)[0].status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_allowed(start_ui, run_rouse, database, method):
    run_rouse("import", QUICK, "--quiet")
    before = database.read_bytes()
    answer, _ = start_ui().ask("/api/runs", method=method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"
    assert database.read_bytes() == before


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:1", "",
    "localhost", "[::1]evil:{port}", "10.0.0.1:{port}"])
def test_a_name_that_was_bound_to_loopback_is_refused(start_ui, run_rouse, host):
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    for path in ("/", "/api/runs", "/events"):
        answer, body = ui.ask(path, host=host.format(port=ui.port))
        assert answer.status in (400, 421), (host, answer.status)
        assert "quick" not in body
    for own in (f"127.0.0.1:{ui.port}", f"localhost:{ui.port}", f"LOCALHOST:{ui.port}",
                f"[::1]:{ui.port}"):
        assert ui.ask("/", host=own)[0].status == 200


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.2", "::", "example.com"])
def test_another_address_is_refused_with_what_to_do(run_rouse, address):
    finished = run_rouse("ui", "--host", address, "--port", 0)
    assert finished.status == 2
    assert "loopback only" in finished.stderr and "ssh -L" in finished.stderr


def test_a_taken_port_names_the_flag(start_ui, run_rouse):
    ui = start_ui()
    finished = run_rouse("ui", "--port", ui.port)
    assert finished.status == 3 and "--port" in finished.stderr


def test_starts_before_there_is_a_database_and_sees_it_come(start_ui, run_rouse, database):
    ui = start_ui()
    assert json.loads(ui.ask("/api/runs")[1]) == {"runs": []}
    assert not database.exists()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all" and m[1]["runs"] == [])
    run_rouse("import", QUICK, "--quiet", "--name", HOSTILE)
    _, message = events.wait(lambda m: m[0] == "changed")
    assert message["runs"][0]["name"] == HOSTILE
    events.close()


def test_events_follow_a_run_of_another_process(start_ui, run_rouse, rouse, environment, model,
                                                tmp_path):
    """A real measurement, seen attempt by attempt, from `running` to `complete`."""
    ui = start_ui()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all")
    with open(tmp_path / "measure.log", "wb") as log:
        measuring = subprocess.Popen(
            [str(rouse), "measure", "--model", str(model), "--repeat", "3", "--only", "warm"],
            stdout=log, stderr=log, env=environment)
        try:
            def running(message):
                return message[0] == "changed" and message[1]["runs"][0]["status"] == "running"

            events.wait(running, 60)
            events.wait(lambda m: running(m) and m[1]["runs"][0]["attempts"] in (1, 2), 60)
            _, told = events.wait(lambda m: running(m) and "progress" in m[1]["runs"][0], 60)
            assert told["runs"][0]["progress"]["total"] == 3
            live, _ = ui.ask("/runs/1")
            assert live.status == 200 and measuring.poll() is None
            events.wait(lambda m: m[0] == "changed" and m[1]["runs"][0]["status"] == "complete", 60)
            assert measuring.wait(60) == 0, (tmp_path / "measure.log").read_text()
        finally:
            end_process(measuring)
    assert [run["attempts"] for run in json.loads(ui.ask("/api/runs")[1])["runs"]] == [3]
    events.close()


def test_control_c_ends_it_and_its_streams(start_ui):
    ui = start_ui()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all")
    ui.process.send_signal(signal.SIGINT)
    assert ui.process.wait(EXIT_TIMEOUT_S) == 0
    with events.changed:
        assert events.changed.wait_for(lambda: events.ended, 10)


def test_lists_a_thousand_runs(start_ui, run_rouse, database):
    run_rouse("import", QUICK, "--quiet")
    with sqlite3.connect(database) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)") if row[1] != "id"]
        names = ", ".join(columns)
        db.executemany(f"INSERT INTO runs ({names}) SELECT {names} FROM runs WHERE id = 1",
                       [()] * 999)
    ui = start_ui()
    assert len(json.loads(ui.ask("/api/runs")[1])["runs"]) == 1000


def test_a_client_that_goes_does_not_end_it(start_ui):
    ui = start_ui()
    for _ in range(30):
        events = Events(ui)
        events.wait(lambda m: m[0] == "all")
        events.close()
    time.sleep(1)
    assert ui.ask("/")[0].status == 200
    assert os.path.exists(f"/proc/{ui.process.pid}")
