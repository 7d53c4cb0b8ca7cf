"""What commands print, whatever the names are: nothing of a file, a process or a server steers the
terminal or breaks the JSON, no line of words is wider than 80 columns, and a text that could not be
written is an error."""
import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
NOBODY = 65534
RED = "\x1b[31m"
QUICK = Path(__file__).resolve().parents[2] / "docs" / "examples" / "quick.jsonl"
BAD_NAME = os.fsdecode(b"caf\xe9\x1b[31m") + ".gguf"

# Maps a file, holds it locked, and says what it is called.
HOLDER = """
import ctypes, mmap, sys
with open("/proc/self/comm", "w") as comm:
    comm.write(sys.argv[2])
with open(sys.argv[1], "r+b") as stream:
    mapped = mmap.mmap(stream.fileno(), 0)
address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(mapped)))
ctypes.CDLL(None).mlock(address, ctypes.c_size_t(len(mapped)))
print("ready", flush=True)
sys.stdin.read()
"""

# Listens, and has a child of its own that maps the model.
PARENT = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2], sys.argv[3]],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
with open("/proc/self/comm", "w") as comm:
    comm.write(sys.argv[3])
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def running(*words):
    """A python program and the first line that it prints."""
    process = subprocess.Popen([sys.executable, "-c", *map(os.fspath, words)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, errors="replace")
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(20)
        process.stdin.close()
        process.stdout.close()


@contextlib.contextmanager
def answering(state):
    """A server that answers GET /state with this."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(state).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *unused):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.fixture
def bad_file(open_folder, model):
    """A model whose name is no UTF-8 and would colour the terminal."""
    path = open_folder / BAD_NAME
    path.write_bytes(model.read_bytes())
    os.sync()
    return path


def harmless(answer, status=0):
    """The answer, when it ended so and steers no terminal."""
    assert answer.status == status, answer.stderr
    assert "\x1b" not in answer.stdout + answer.stderr
    return answer


def fits(text: str) -> None:
    """A path stands unbroken on a line of its own; all else is at most 80 columns wide."""
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert all("/" in line.split()[-1] and len(line.split()) <= 2 for line in wide), wide


@pytest.mark.parametrize("command", [["state"], ["evict"], ["warm"], ["pin", "--for", "10ms"]])
def test_names_of_files_may_hold_any_bytes(run_rouse, bad_file, command):
    assert "caf??[31m.gguf" in harmless(run_rouse(*command, bad_file)).stdout
    told = harmless(run_rouse(*command, bad_file, "--json", "--quiet"))
    first = json.loads(told.stdout.splitlines()[0]) if command[0] == "pin" else told.json()
    assert first.get("file", *first.get("files", [])).endswith("caf\ufffd\x1b[31m.gguf")
    assert "caf??[31m" in harmless(run_rouse(*command, f"{bad_file}.no"), 3).stderr


def test_names_of_models_may_hold_any_bytes(run_rouse, bad_file, tmp_path):
    environment = {"ROUSE_MODELS": str(bad_file.parent)}
    assert "caf??[31m" in harmless(run_rouse("models", env=environment)).stdout
    assert "caf\ufffd" in json.dumps(run_rouse("models", "--json", env=environment).json(),
                                     ensure_ascii=False)
    doctor = harmless(run_rouse("doctor", "--model-file", bad_file))
    assert "caf??[31m.gguf" in doctor.stdout
    assert run_rouse("doctor", "--model-file", bad_file, "--json").json()["target"] == "builtin"
    copy = tmp_path / f"{RED}synth.gguf"
    assert "?[31msynth.gguf" in harmless(run_rouse("synth", copy, "--like", "tiny")).stdout


def test_processes_may_have_any_name(run_rouse, bad_file):
    with running(HOLDER, bad_file, RED + "holder") as (process, _):
        shown = harmless(run_rouse("state", bad_file)).stdout
        assert f"?[31mholder (pid {process.pid})" in shown and "locked" in shown
        fits(shown)
        assert f"?[31mholder (pid {process.pid})" in harmless(run_rouse("evict", bad_file),
                                                              3).stderr


def test_a_model_that_a_child_maps_is_the_servers(run_rouse, bad_file):
    with running(PARENT, HOLDER, bad_file, RED + "server") as (process, port):
        url = f"http://127.0.0.1:{port}"
        shown = harmless(run_rouse("state", url)).stdout
        assert f"?[31mserver (pid {process.pid})" in shown
        assert "caf??[31m.gguf" in shown and "in the page cache: " in shown
        fits(shown)
        value = run_rouse("state", url, "--json").json()
        assert [each["resident_ratio"] for each in value["models"]] == [1.0]
        doctor = harmless(run_rouse("doctor", "--target", url)).stdout
        assert "?[31mserver" in doctor and "caf??[31m.gguf" in doctor
        fits(doctor)


def test_words_of_a_server_do_nothing_to_the_terminal(run_rouse):
    layers = {RED + "layer": RED + "value", "n": {"a": RED}}
    with answering({"schema": "rouse.server_state/1",
                    "models": [{"id": RED + "evil", "layers": layers}]}) as url:
        shown = harmless(run_rouse("state", url)).stdout
        assert "?[31mevil" in shown and "?[31mvalue" in shown and "?[31mlayer" in shown
        harmless(run_rouse("explain", url))


@pytest.mark.parametrize("models", [
    [{"id": 7, "layers": "none", "eta_first_token_ns": "soon"}], ["m"], {"id": "m"}, "m", None])
def test_a_servers_members_may_have_any_type(run_rouse, models):
    with answering({"schema": "rouse.server_state/1", "models": models, "queue": 3}) as url:
        harmless(run_rouse("state", url))
        harmless(run_rouse("explain", url))
        assert run_rouse("state", url, "--json").json()["server"]["models"] == models


@pytest.mark.parametrize("state", [{"schema": 1}, {"schema": ["rouse.server_state/1"]}, [], "x",
                                   7, None])
def test_what_is_no_rouse_servers_state_is_said(run_rouse, state):
    with answering(state) as url:
        assert run_rouse("state", url, "--json").json()["server"] is None


@as_root
def test_an_estimate_fits_too(rouse, environment, bad_file):
    copy = bad_file.parent / "rouse"
    copy.write_bytes(Path(rouse).read_bytes())
    for path, mode in ((copy, 0o755), (bad_file, 0o644)):
        path.chmod(mode)
    answer = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", copy, "state",
         bad_file], capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert "estimated from" in answer.stdout and "not looked at" in answer.stdout
    fits(answer.stdout)


@as_root
def test_an_age_is_of_the_machines_clock_and_not_of_a_containers(rouse, environment, tmp_path):
    uptime = tmp_path / "uptime"
    uptime.write_text("0.50 0.50\n")  # of a container that has just been started
    with running(PARENT, HOLDER, tmp_path / "none", "server") as (_, port):
        answer = subprocess.run(
            ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/uptime && exec "$@"',
             uptime, rouse, "state", f"http://127.0.0.1:{port}", "--json"],
            capture_output=True, text=True, env=environment, timeout=60, check=False)
    if answer.returncode != 0 and "unshare" in answer.stderr + answer.stdout:
        pytest.skip(answer.stderr)
    assert 0 <= json.loads(answer.stdout)["age_ns"] < 120e9


# Each command that prints on stdout, with what it needs.
PRINTING = ["--help", "--version", "list", "list --json", "list --help", "models", "models --json",
            "doctor", "doctor --json", "report", "report --csv", "report --json", "explain",
            "compare 1:warm '1:page cache cold'", "compare 1:warm '1:page cache cold' --json",
            "compare 1:warm '1:page cache cold' --markdown", "measure --dry-run",
            "measure --print-plan", "measure --print-schema", "state $FILE", "evict $FILE --json",
            "warm $FILE --quiet", "pin $FILE --for 10ms --quiet", "import $QUICK --quiet",
            "synth $FILE.gguf --like tiny --quiet --force"]


@pytest.fixture
def shell(rouse, environment, run_rouse, tmp_path):
    """Runs a line of a shell, with $ROUSE, $FILE and a database with one run."""
    assert run_rouse("import", QUICK, "--quiet").status == 0
    file = tmp_path / "file.bin"
    file.write_bytes(b"x" * 4096)

    def run(line: str, **options):
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False,
                              env={**environment, "ROUSE": str(rouse), "FILE": str(file),
                                   "QUICK": str(QUICK)}, timeout=60, **options)

    return run


@pytest.mark.parametrize("command", PRINTING)
def test_a_text_that_cannot_be_written_is_exit_3(shell, command):
    full = shell(f'"$ROUSE" {command} > /dev/full')
    assert full.returncode == 3, full.stderr
    # Of a text of several buffers the reason of the first one is gone by the end.
    reason = "No space left on device|a part is missing"
    assert re.search(f"cannot write to standard output: ({reason})$", full.stderr), full.stderr


def test_a_mistake_keeps_its_own_status_where_nothing_can_be_written(shell):
    assert shell('"$ROUSE" report 99 > /dev/full').returncode == 2
    assert shell('"$ROUSE" state /nowhere/x > /dev/full').returncode == 3


@pytest.mark.parametrize("ignored", [False, True])
def test_a_reader_that_has_gone_is_told_nothing(rouse, environment, ignored):
    # A shell's commands die of SIGPIPE; where it is ignored there is nobody to complain to.
    reader, writer = os.pipe()
    os.close(reader)
    was = signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        answer = subprocess.run([rouse, "measure", "--print-schema"], stdout=writer, timeout=60,
                                stderr=subprocess.PIPE, text=True, env=environment, check=False,
                                restore_signals=False)
    finally:
        signal.signal(signal.SIGPIPE, was)
        os.close(writer)
    assert answer.returncode == (0 if ignored else -signal.SIGPIPE)
    assert answer.stderr == ""


@pytest.mark.parametrize("command", [["evict"], ["warm"], ["pin", "--for", "10ms"]])
def test_sentences_of_a_file_fit_80_columns(run_rouse, open_folder, command):
    file = open_folder / ("a" * 60)
    file.write_bytes(b"x" * (5 << 20))
    os.sync()
    answer = run_rouse(*command, file, "--quiet")
    assert answer.status == 0 and str(file) in answer.stdout
    assert max(len(line) for line in answer.stdout.splitlines() if "/" not in line) > 40
    fits(answer.stdout)
    assert not re.search(r" $", answer.stdout, re.MULTILINE)
