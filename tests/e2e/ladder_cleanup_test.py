"""kill -9 of the tool while something of its own runs beside a server: the loads, the ballast, the
server with its whole family. Whoever is killed with it (its wardens, everything that cleans up),
nothing stays behind: no process, no control group, no file, no locked memory."""
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

FILE_BYTES = 4 << 20

# Answers its first request at once (that is the primer), and lets all others wait.
SERVER = r"""
import socket, sys, threading, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
requests = 0
def serve(connection):
    global requests
    data = b""
    while b"\r\n\r\n" not in data or not data.rstrip().endswith(b"}"):
        got = connection.recv(65536)
        if not got:
            return
        data += got
    requests += 1
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                       b"Connection: close\r\n\r\n")
    if requests > 1:
        time.sleep(600)
    connection.sendall(b'data: {"choices": [{"delta": {"content": "x"}, "index": 0}]}\n\n'
                       b"data: [DONE]\n\n")
    connection.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

# A server as people start them: below a shell, with a helper in a session of its own.
WRAPPER = """#!/bin/sh
setsid sleep 1000 &
{python} {server} "$1" &
wait
"""

LOADS = {"ballast": 'state = { memory_pressure = "64MiB" }\nidle = "10m"',
         "cpu": 'state = { background = "cpu" }',
         "disk": 'state = { background = "disk" }',
         "requests": 'state = { background = "requests" }',
         "sentinel": ""}

# Who is killed together with the tool, by the names that they have in ps.
KILLED_WITH_IT = {"the tool": (),
                  "the tool and its wardens": ("rouse-warden",),
                  "the tool and all that cleans up after it": ("rouse-warden", "rouse-keeper")}


def marked(marker: str) -> dict[int, str]:
    """pid -> command name, of every living process with the marker in its environment."""
    found = {}
    wanted = f"ROUSE_TEST_MARKER={marker}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "comm").read_text().strip()
    return found


def worker(marker: str, role: str) -> int | None:
    for pid in marked(marker):
        with contextlib.suppress(OSError):
            if f"\0worker\0{role}\0".encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


def ballast_groups(tool: int) -> list[str]:
    return [os.path.join(folder, name) for folder, names, _ in os.walk("/sys/fs/cgroup")
            for name in names if name.startswith(f"rouse-ballast-{tool}-")]


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.03)
    return value


def kill_at_once(pids):
    """Stopped first, so that none of them can act on the death of another."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def measuring(rouse, environment, tmp_path):
    """measuring(load) -> (process of the tool, marker), once the load runs."""
    server, wrapper, file = tmp_path / "server.py", tmp_path / "server.sh", tmp_path / "weights"
    server.write_text(SERVER)
    wrapper.write_text(WRAPPER.format(python=sys.executable, server=server))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    file.write_bytes(b"w" * FILE_BYTES)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    started = []

    def start(load: str):
        plan = tmp_path / "plan.toml"
        plan.write_text('[experiment]\nname = "k"\nrepeat = 1\n'
                        + ("sentinel = true\n" if load == "sentinel" else "")
                        + f'[target]\nkind = "command"\ncommand = "{wrapper} {{port}}"\n'
                          f'model_file = "{file}"\ncompile_cache_env = "XDG_CACHE_HOME"\n'
                          f'[[condition]]\nname = "a"\n{LOADS[load]}\n')
        marker = f"{os.getpid()}-{load}-{time.monotonic_ns()}"
        tool = subprocess.Popen(
            [str(rouse), "measure", str(plan)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(tmp_path / "measure.log", "wb"),
            env={**environment, "ROUSE_TEST_MARKER": marker, "TMPDIR": str(temporary)})
        started.append((tool, marker))
        try:
            wait_until(lambda: worker(marker, load) or tool.poll() is not None)
            assert tool.poll() is None
        except AssertionError:
            pytest.fail((tmp_path / "measure.log").read_text())
        return tool, marker

    start.temporary = temporary
    yield start
    for tool, marker in started:
        kill_at_once([tool.pid, *marked(marker)])
        tool.wait(20)


@pytest.fixture
def next_run(run_rouse, tmp_path, measuring):
    """next_run() measures one attempt of another server: what any next use of rouse would do."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               b"Connection: close\r\n\r\n"
                               b'data: {"choices": [{"delta": {"content": "x"}, "index": 0}]}\n\n'
                               b"data: [DONE]\n\n")
            connection.close()

    threading.Thread(target=serve, daemon=True).start()

    def run():
        plan = tmp_path / "next.toml"
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        plan.write_text('[experiment]\nname = "n"\nrepeat = 1\n[target]\nkind = "url"\n'
                        f'url = "{url}"\n[[condition]]\nname = "a"\n')
        return run_rouse("measure", plan, "--json", env={"TMPDIR": str(measuring.temporary)})

    yield run
    listener.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("killed", KILLED_WITH_IT)
def test_nothing_is_left_when_it_is_killed(measuring, next_run, load, killed):
    tool, marker = measuring(load)
    family = marked(marker)
    assert {"rouse-keeper", "rouse-warden", "sleep"} <= set(family.values()), family
    if load == "ballast" and os.geteuid() == 0:
        assert ballast_groups(tool.pid)
    assert list(measuring.temporary.iterdir())  # the compile cache
    kill_at_once([tool.pid] + [pid for pid, name in family.items()
                               if name in KILLED_WITH_IT[killed]])
    tool.wait(20)
    everything = "rouse-keeper" in KILLED_WITH_IT[killed]
    if not everything:
        # Whoever is left of the guards ends it, without any help.
        wait_until(lambda: not marked(marker))
    if killed == "the tool":
        wait_until(lambda: not ballast_groups(tool.pid))
    else:
        wait_until(lambda: not worker(marker, load))  # the kernel ends what a warden has started
    if everything:
        assert "sleep" in marked(marker).values()  # else this would test nothing
    answer = next_run()
    assert answer.status == 0, answer.stderr
    assert marked(marker) == {}
    assert ballast_groups(tool.pid) == []
    assert list(measuring.temporary.iterdir()) == []
    if everything:
        assert "Removed what a killed rouse had left: sleep (pid " in answer.stderr


@pytest.mark.timeout(120)
def test_the_next_run_leaves_one_that_lives_alone(measuring, next_run):
    tool, marker = measuring("cpu")
    family = marked(marker)
    answer = next_run()
    assert answer.status == 0, answer.stderr
    assert "Removed" not in answer.stderr
    assert tool.poll() is None and set(marked(marker)) >= set(family)
    assert list(measuring.temporary.iterdir())
