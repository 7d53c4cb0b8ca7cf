"""The state ladder end to end: for the built-in server and llama-server each layer is set, proved
before the request and seen after it, on a model file of at least 250 MB; nothing is touched while
idling; nothing stays behind."""
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ladder_loads import LOADS

MODEL_BYTES = 250_000_000
MEASURE_TIMEOUT_S = 280
NOBODY = 65534
BALLAST_BYTES = 64 << 20

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture(scope="session")
def ladder_model(rouse) -> Path:
    """A synthetic model, made once for this user and kept: two sessions may want it at once."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(os.environ.get("ROUSE_CACHE") or Path(base) / "rouse") / "test-models"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ladder.gguf"
    with open(folder / "ladder.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            subprocess.run([str(rouse), "synth", str(path), "--like", "qwen-0.5b", "--quant",
                            "q4_0", "--vocab", "128k", "--quiet"], check=True, timeout=120,
                           stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    assert path.stat().st_size >= MODEL_BYTES
    return path


@pytest.fixture
def measure(rouse, environment, tmp_path, open_folder):
    """measure(plan, *arguments) -> condition name -> its one attempt."""

    def run(plan: str, *arguments, prefix=(), binary=None, database=None, status=0):
        path = open_folder / "plan.toml"
        path.write_text("[experiment]\nname = \"ladder\"\nrepeat = 1\nmax_tokens = 8\n" + plan)
        answer = subprocess.run(
            [*prefix, str(binary or rouse), "measure", str(path), "--json", "--db",
             str(database or tmp_path / "r.sqlite"), *map(str, arguments)],
            capture_output=True, text=True, env=environment, timeout=MEASURE_TIMEOUT_S,
            stdin=subprocess.DEVNULL, check=False)
        assert answer.returncode == status, answer.stderr[-3000:]
        attempts = json.loads(answer.stdout)["attempts"]
        return {each["condition"]: each for each in attempts if each.get("block") is not None}

    return run


def reached(attempt, layer, when="state_at_send"):
    assert attempt["outcome"] == "ok", (attempt["condition"], attempt["outcome_detail"])
    reading = attempt[when][layer]
    assert reading["reached"] is True, (attempt["condition"], reading)
    return reading


def check_loads(attempts, keeps_connections):
    """What every kind of target can have beside it."""
    pressure = attempts["memory pressure"]
    for when in ("state_before", "state_at_send", "state_after"):
        assert int(reached(pressure, "memory_pressure", when)["value"]) >= BALLAST_BYTES
    for load, word in (("cpu", "s in "), ("disk", "B"), ("requests", "answered")):
        reading = reached(attempts[load], "background", "state_after")
        assert reading["value"] == load and word in reading["detail"], reading
    assert attempts["warm"]["connection"]["reused"] is False
    if keeps_connections:
        assert attempts["kept"]["connection"]["reused"] is True
        reached(attempts["kept"], "connection", "state_after")
    else:
        # It announces Keep-Alive and closes after a streamed answer: told, not hidden.
        assert attempts["kept"]["outcome"] == "state_not_reached"
        assert "had closed the kept connection" in attempts["kept"]["outcome_detail"]
    reached(attempts["hit"], "prefix_cache", "state_before")
    assert attempts["hit"]["tokens"]["cached"] >= attempts["hit"]["tokens"]["prompt"] - 16
    reached(attempts["warm"], "prefix_cache", "state_after")
    assert reached(attempts["warm"], "page_cache")["value"] >= 0.99


@pytest.mark.timeout(300)
def test_each_layer_of_the_built_in_server(measure, ladder_model):
    attempts = measure(f"""
[target]
model = "{ladder_model}"
context = 256
[[condition]]
name = "warm"
[[condition]]
name = "asleep"
base = "warm"
state = {{ model = "asleep" }}
[[condition]]
name = "asleep and cold"
base = "asleep"
state = {{ page_cache = "cold" }}
[[condition]]
name = "unloaded"
base = "warm"
state = {{ model = "unloaded" }}
[[condition]]
name = "cold under a live server"
base = "unloaded"
state = {{ page_cache = "cold" }}
[[condition]]
name = "half"
base = "unloaded"
state = {{ page_cache = 0.5 }}
[[condition]]
name = "new"
base = "unloaded"
state = {{ process = "new" }}
[[condition]]
name = "cold"
base = "new"
state = {{ page_cache = "cold" }}
""" + LOADS)
    check_loads(attempts, keeps_connections=True)
    assert attempts["warm"]["tokens"]["cached"] == 0
    assert reached(attempts["unloaded"], "model", "state_before")["value"] == "unloaded"
    half = reached(attempts["half"], "page_cache")["value"]
    assert 0.48 <= half <= 0.52
    for name in ("asleep", "asleep and cold"):
        asleep = reached(attempts[name], "model", "state_before")
        assert asleep["value"] == "asleep" and "smaps" in asleep["proof"]
        assert attempts[name]["state_after"]["model"]["value"] == "loaded"
    for name in ("cold", "cold under a live server", "asleep and cold"):
        assert reached(attempts[name], "page_cache")["value"] <= 0.01
        assert attempts[name]["counters"]["target_read_bytes"] >= MODEL_BYTES / 2
    assert attempts["new"]["counters"]["target_read_bytes"] <= MODEL_BYTES / 10
    assert reached(attempts["new"], "process")["value"] == "none"
    assert reached(attempts["new"], "process", "state_after")["value"] == "new"
    identities = {attempts[name]["state_after"]["process"]["detail"] for name in ("new", "cold")}
    assert len(identities) == 2


@pytest.mark.timeout(300)
def test_each_layer_of_a_single_llama_server(measure, ladder_model, llama_server):
    command = (f"{llama_server} -m {{model}} --port {{port}} -c 256 -np 1 -t 1 --fit off "
               "--no-warmup --no-ui")
    attempts = measure(f"""
[target]
kind = "command"
command = "{command}"
model = "{ladder_model}"
compile_cache_env = "XDG_CACHE_HOME"
[[condition]]
name = "warm"
[[condition]]
name = "new"
base = "warm"
state = {{ process = "new", model = "unloaded" }}
compound = true
[[condition]]
name = "no kernels"
base = "new"
state = {{ compile_cache = "empty" }}
""" + LOADS, "--model-file", ladder_model)
    check_loads(attempts, keeps_connections=False)
    assert reached(attempts["new"], "process", "state_after")["value"] == "new"
    assert attempts["new"]["tries"] >= 1
    reading = reached(attempts["no kernels"], "compile_cache")
    assert reading["value"] == "empty" and "0 B in 0 files" in reading["detail"]


@contextlib.contextmanager
def running(command: list, port: int, folder: Path, **environment):
    """A server that accepts connections on 127.0.0.1, with a home of its own."""
    log = folder / "server.log"
    with open(log, "wb") as stream:
        process = subprocess.Popen(list(map(str, command)), stdout=stream, stderr=stream,
                                   stdin=subprocess.DEVNULL,
                                   env={**os.environ, "HOME": str(folder), **environment})
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            assert process.poll() is None and time.monotonic() < deadline, \
                log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def router(llama_server, ladder_model, tmp_path, free_port):
    folder = tmp_path / "models"
    folder.mkdir()
    # A link: the router lists what lies in the folder.
    (folder / "ladder.gguf").symlink_to(ladder_model)
    with running([llama_server, "--models-dir", folder, "--port", free_port, "-c", "256", "-np",
                  "1", "-t", "1", "--fit", "off", "--no-warmup", "--no-ui"], free_port,
                 tmp_path) as url:
        yield url


@pytest.mark.timeout(300)
def test_the_sleep_of_a_single_llama_server(measure, llama_server, ladder_model, tmp_path,
                                            free_port):
    """It has no unload call: its own sleep is waited for, proved, and ended by the request."""
    command = [llama_server, "-m", ladder_model, "--port", free_port, "-c", "256", "-np", "1",
               "--fit", "off", "--no-warmup", "--no-ui", "-t", "1"]
    plan = """
[target]
kind = "llama-server"
url = "URL"
model = "ladder"
model_file = "FILE"
[[condition]]
name = "warm"
[[condition]]
name = "asleep"
base = "warm"
state = { model = "unloaded" }
""".replace("FILE", str(ladder_model))
    cold = '[[condition]]\nname = "cold"\nbase = "asleep"\nstate = { page_cache = "cold" }\n'
    with running([*command, "--sleep-idle-seconds", "1"], free_port, tmp_path) as url:
        attempts = measure(plan.replace("URL", url) + cold)
    assert reached(attempts["warm"], "model", "state_before")["value"] == "loaded"
    for name in ("asleep", "cold"):
        asleep = reached(attempts[name], "model", "state_before")
        assert asleep["value"] == "unloaded" and "no mapping" in asleep["proof"]
        assert attempts[name]["state_after"]["model"]["value"] == "loaded"
    assert reached(attempts["cold"], "page_cache")["value"] <= 0.01
    assert attempts["cold"]["counters"]["target_read_bytes"] >= MODEL_BYTES / 2
    with running(command, free_port, tmp_path) as url:
        refused = measure(plan.replace("URL", url))
    assert refused["asleep"]["outcome"] == "state_not_reached"
    assert "never sleeps: start it with --sleep-idle-seconds" in refused["asleep"]["outcome_detail"]


@pytest.mark.timeout(300)
def test_each_layer_of_a_router(measure, router, ladder_model):
    attempts = measure(f"""
[target]
kind = "llama-server"
url = "{router}"
model = "ladder"
model_file = "{ladder_model}"
[[condition]]
name = "warm"
[[condition]]
name = "unloaded"
base = "warm"
state = {{ model = "unloaded" }}
[[condition]]
name = "cold"
base = "unloaded"
state = {{ page_cache = "cold" }}
""" + LOADS)
    check_loads(attempts, keeps_connections=False)
    assert attempts["warm"]["tokens"]["cached"] == 0  # cache_prompt: false
    unloaded = reached(attempts["unloaded"], "model", "state_before")
    assert unloaded["value"] == "unloaded" and "no mapping" in unloaded["proof"]
    assert attempts["unloaded"]["state_after"]["model"]["value"] == "loaded"
    assert reached(attempts["cold"], "page_cache")["value"] <= 0.01
    # Found by the port, so its counters are known although rouse did not start it.
    assert attempts["warm"]["counters"]["target_rss_bytes"] > MODEL_BYTES / 2


# --- what runs as somebody else -------------------------------------------------------------------


@pytest.fixture
def nobody(open_folder, rouse, environment):
    """nobody("evict", file) runs the binary as a user without any privilege."""
    home = open_folder / "nobody"
    home.mkdir()
    copy = home / "rouse"
    copy.write_bytes(rouse.read_bytes())
    copy.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

    def run(*arguments, timeout=120):
        return subprocess.run([*prefix, str(copy), *map(str, arguments)], capture_output=True,
                              text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False,
                              env={**environment, "HOME": str(home), "ROUSE_CACHE": str(home)})

    run.home = home
    run.prefix = prefix
    run.binary = copy
    return run


@as_root
@pytest.mark.timeout(300)
def test_an_owner_without_privilege_sets_and_proves_the_ladder(nobody, measure, environment):
    file = nobody.home / "own.gguf"
    made = nobody("synth", file, "--like", "qwen-0.5b", "--quant", "q4_0", "--quiet")
    assert made.returncode == 0, made.stderr
    assert file.stat().st_size >= MODEL_BYTES and file.stat().st_uid == NOBODY
    environment.update(HOME=str(nobody.home), ROUSE_CACHE=str(nobody.home))
    attempts = measure(f"""
[target]
model = "{file}"
context = 256
[[condition]]
name = "unloaded"
state = {{ model = "unloaded" }}
[[condition]]
name = "cold"
base = "unloaded"
state = {{ page_cache = "cold" }}
[[condition]]
name = "pressure"
base = "unloaded"
state = {{ memory_pressure = "64MiB" }}
""", prefix=nobody.prefix, binary=nobody.binary, database=nobody.home / "r.sqlite")
    assert reached(attempts["cold"], "page_cache")["value"] <= 0.01
    assert reached(attempts["cold"], "page_cache")["proof"] in ("cachestat", "mincore")
    assert "no control group of its own" in reached(attempts["pressure"],
                                                    "memory_pressure")["detail"]
    # The mapper of the same user is named, and the state is not reached.
    mapper = subprocess.Popen(
        [sys.executable, "-c",
         # That user may not be able to execute this Python; and a process that has changed its
         # user hides its maps until it says otherwise (PR_SET_DUMPABLE).
         "import ctypes, mmap, os, sys; libc = ctypes.CDLL(None);"
         f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); libc.prctl(4, 1, 0, 0, 0);"
         "f = open(sys.argv[1], 'rb');"
         "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); sum(m[::4096]);"
         "print('ready', flush=True); sys.stdin.read()", str(file)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert mapper.stdout.readline() == "ready\n"
        evicted = nobody("evict", file)
        assert evicted.returncode == 3
        assert str(mapper.pid) in evicted.stdout + evicted.stderr
    finally:
        mapper.stdin.close()
        mapper.wait(20)
        mapper.stdout.close()
    assert nobody("evict", file).returncode == 0


@as_root
def test_whoever_does_not_own_the_file_is_never_told_that_it_is_all_there(nobody, open_folder,
                                                                          run_rouse, ladder_model):
    file = open_folder / "foreign.gguf"
    file.write_bytes(ladder_model.read_bytes())
    file.chmod(0o644)
    assert run_rouse("evict", file).status == 0
    state = nobody("state", file, "--json")
    assert state.returncode == 0, state.stderr
    value = json.loads(state.stdout)
    assert value["proof"] not in ("cachestat", "mincore")
    assert value["resident_ratio"] is None or value["resident_ratio"] <= 0.1
    limit = nobody("pin", file, "--for", "1s")
    assert limit.returncode == 3
    assert "memlock" in (limit.stdout + limit.stderr).lower()


# --- nothing stays behind -------------------------------------------------------------------------


def workers_of(marker: str) -> list[int]:
    found = []
    wanted = f"ROUSE_TEST_MARKER={marker}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def ballast_of(marker: str) -> int | None:
    for pid in workers_of(marker):
        with contextlib.suppress(OSError):
            if b"\0ballast\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


def group_of(pid: int) -> str:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        if "rouse-ballast-" in line:
            return line.split("rouse-ballast-")[1]
    return ""


def groups(name: str) -> list[str]:
    return [folder for folder, names, _ in os.walk("/sys/fs/cgroup")
            if f"rouse-ballast-{name}" in names]


@pytest.mark.timeout(120)
def test_a_kill_during_ballast_leaves_no_process_and_no_control_group(rouse, environment, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[experiment]\nname = "k"\nrepeat = 1\n[[condition]]\nname = "a"\n'
                    'state = { memory_pressure = "64MiB" }\nidle = "60s"\n')
    marker = f"{os.getpid()}-ballast"
    tool = subprocess.Popen([str(rouse), "measure", str(plan)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env={**environment, "ROUSE_TEST_MARKER": marker})
    try:
        deadline = time.monotonic() + 60
        while (pid := ballast_of(marker)) is None:
            assert tool.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        name = group_of(pid)
        if os.geteuid() == 0:
            assert name and groups(name)
    finally:
        tool.send_signal(signal.SIGKILL)
        tool.wait(20)
    deadline = time.monotonic() + 20
    while workers_of(marker) or (name and groups(name)):
        assert time.monotonic() < deadline, (workers_of(marker), name)
        time.sleep(0.05)


# --- no observer effect ---------------------------------------------------------------------------


class ScriptedServer(threading.Thread):
    """Answers every request with one token, and writes down when bytes came."""

    EVENTS = (b'data: {"choices": [{"delta": {"content": "blue"}, "index": 0}]}\n\n'
              b'data: {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 1}}\n\n'
              b"data: [DONE]\n\n")

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.seen: list[float] = []

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.seen.append(time.time())
            data = b""
            while b"\r\n\r\n" not in data or not data.rstrip().endswith(b"}"):
                got = connection.recv(65536)
                if not got:
                    break
                data += got
                self.seen.append(time.time())
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               b"Connection: close\r\n\r\n" + self.EVENTS)
            connection.close()


@pytest.mark.timeout(120)
def test_while_idling_the_server_sees_no_byte(measure):
    server = ScriptedServer()
    server.start()
    attempts = measure(f"""sentinel = true
[target]
kind = "url"
url = "{server.url}"
[[condition]]
name = "idle"
idle = "3s"
""")
    server.socket.close()
    assert attempts["idle"]["outcome"] == "ok", attempts["idle"]["outcome_detail"]
    sent = attempts["idle"]["started_wall_ns"] / 1e9
    within = [when for when in server.seen if sent - 3.0 <= when <= sent - 0.001]
    assert within == [], [when - sent for when in server.seen]
    assert any(when < sent - 3.0 for when in server.seen)  # the primer
    assert any(when > sent - 0.001 for when in server.seen)  # the request


def waits_for_requests(pid: int) -> int:
    """How often the server's thread that takes requests has gone to sleep: up to three times for
    each of them, however small it was and however busy the machine is."""
    [name] = [task for task in Path(f"/proc/{pid}/task").iterdir()
              if (task / "comm").read_text() == "rouse-io\n"]
    [line] = [line for line in (name / "status").read_text().splitlines()
              if line.startswith("voluntary_ctxt_switches:")]
    return int(line.split()[1])


@pytest.mark.timeout(120)
def test_while_idling_the_built_in_server_and_its_file_are_left_alone(rouse, environment, tmp_path,
                                                                      model):
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[experiment]\nname = "i"\nrepeat = 1\n[target]\nmodel = "{model}"\n'
                    '[[condition]]\nname = "idle"\nidle = "4s"\n')
    marker = f"{os.getpid()}-idle"
    tool = subprocess.Popen([str(rouse), "measure", str(plan), "--json"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            env={**environment, "ROUSE_TEST_MARKER": marker})
    samples: list[tuple[float, int]] = []
    pid = None
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.append(tool.stdout.read()), daemon=True)
    reader.start()
    while reader.is_alive():
        if pid is None:
            for each in workers_of(marker):
                with contextlib.suppress(OSError):
                    if b"\0serve\0" in Path(f"/proc/{each}/cmdline").read_bytes():
                        pid = each
        else:
            with contextlib.suppress(OSError, ValueError):  # no such thread yet, or no more
                samples.append((time.time(), waits_for_requests(pid)))
        time.sleep(0.05)
    assert tool.wait(20) == 0
    attempt = [each for each in json.loads(output[0])["attempts"]
               if each.get("block") is not None][0]
    sent = attempt["started_wall_ns"] / 1e9
    idle = [(when, waits) for when, waits in samples if sent - 3.8 <= when <= sent - 0.05]
    assert idle and idle[-1][0] - idle[0][0] > 1, "it was not looked at for long enough"
    # A timer of the answer before may run out once; who asks wakes it again and again.
    assert idle[-1][1] - idle[0][1] <= 1, idle
    before, after = attempt["state_before"]["page_cache"], attempt["state_at_send"]["page_cache"]
    # Whoever reads the file brings pages in; one that the kernel moves right then may be missing.
    assert before["value"] - 0.001 < after["value"] <= before["value"]


def test_doctor_has_a_matrix_for_each_kind_of_target_and_sends_nothing(run_rouse):
    for kind in ("builtin", "command", "url", "llama-server", "ollama", "llama-swap", "vllm"):
        answer = run_rouse("doctor", "--target", kind, "--json")
        assert answer.status == 0, answer.stderr
        report = answer.json()
        assert report["target"] == kind
        rows = {row["layer"]: row for row in report["layers"]}
        assert len(rows) == 8
        for row in rows.values():
            for column in ("settable", "provable", "observable"):
                assert row[column]["yes"] or row[column]["how"], (kind, row)
        assert rows["memory_pressure"]["settable"]["yes"]
        assert rows["background"]["settable"]["yes"]
        assert rows["model"]["settable"]["yes"] is (kind != "url")
    assert "VLLM_SERVER_DEV_MODE=1" in rows["model"]["settable"]["widen"]


def test_a_target_is_named_by_kind_and_url(run_rouse, free_port):
    target = ("measure", "--target", f"ollama:http://127.0.0.1:{free_port}", "--dry-run")
    listed = run_rouse(*target, "--only", "warm,model unloaded")
    assert listed.status == 2 and "it has warm, prefix hit, model unloaded" in listed.stderr
    answer = run_rouse(*target, "--only", "warm", "--only", "model unloaded")
    assert answer.status == 0, answer.stderr
    assert "GET /api/ps" in answer.stdout
    refused = run_rouse("measure", "--target", "olama:http://127.0.0.1:1", "--dry-run")
    assert refused.status in (2, 3)
