"""The load background = "requests" against a server that wants a key: its streams send the header
that headers_env names, as the measured request does, and the key is in no process's arguments."""
import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

KEY = "sk-test-4c1d7e9a"
VARIABLE = "ROUSE_TEST_SERVER_KEY"


@pytest.fixture
def keyed(start_server):
    return start_server(env={"ROUSE_API_KEY": KEY})


def measured(rouse, environment, tmp_path, server, headers: str, watch=None):
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[experiment]\nname = "keyed"\nrepeat = 1\nmax_tokens = 32\n'
                    f'[target]\nkind = "url"\nurl = "{server.url}"\n{headers}\n'
                    '[[condition]]\nname = "busy"\nstate = { background = "requests" }\n')
    tool = subprocess.Popen([str(rouse), "measure", str(plan), "--json"], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE,
                            env={**environment, VARIABLE: f"Bearer {KEY}"})
    watcher = threading.Thread(target=watch, args=(tool,)) if watch else None
    if watcher:
        watcher.start()
    output, errors = tool.communicate(timeout=100)
    if watcher:
        watcher.join()
    return tool.returncode, output, errors


@pytest.mark.timeout(150)
def test_the_load_sends_the_key_too_and_is_answered(rouse, environment, tmp_path, keyed):
    seen = []

    def watch(tool):
        while tool.poll() is None:
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    try:
                        arguments = (entry / "cmdline").read_bytes()
                    except OSError:
                        continue
                    if b"\0worker\0requests\0" in arguments:
                        seen.append(arguments)
            time.sleep(0.02)

    status, output, errors = measured(
        rouse, environment, tmp_path, keyed,
        f'headers_env = {{ Authorization = "{VARIABLE}" }}', watch)
    assert status == 0, errors
    attempts = [each for each in json.loads(output)["attempts"] if each["block"] is not None]
    assert [each["outcome"] for each in attempts] == ["ok"]
    background = attempts[0]["state_after"]["background"]
    assert background["reached"] is True and "answered" in background["detail"]
    assert int(background["detail"].split()[0]) >= 1
    assert seen and not any(KEY.encode() in each for each in seen)


@pytest.mark.timeout(150)
def test_without_the_key_the_server_refuses_and_nothing_counts_as_answered(rouse, environment,
                                                                            tmp_path, keyed):
    status, output, errors = measured(rouse, environment, tmp_path, keyed, "")
    assert status == 3
    assert "401" in output + errors
