"""Fixtures of tests/e2e: they run the built binary as a user would, never its libraries.

ROUSE_BINARY (default build/release/rouse), ROUSE_MODEL (default: the one in the user's cache) and
ROUSE_LLAMA_SERVER are set by ./dev test. Each test has its own results database (ROUSE_DB) and its
own home, so that nothing of the user is read or written. Every wait has a limit, and every process
that a fixture starts is ended by its pid.
"""
import contextlib
import dataclasses
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import EXIT_TIMEOUT_S, end_process

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
COMMAND_TIMEOUT_S = 60
READY_TIMEOUT_S = 60


def user_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("ROUSE_CACHE") or Path(base) / "rouse")


@dataclasses.dataclass
class Finished:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str
    seconds: float

    def json(self):
        """stdout as the one JSON value that --json promises."""
        return json.loads(self.stdout)


@dataclasses.dataclass
class Server:
    """A `rouse serve` that listens."""

    process: subprocess.Popen
    ready: dict
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return self.ready["port"]

    @property
    def url(self) -> str:
        return f"http://{self.ready['host']}:{self.ready['port']}"

    def stop(self, signal_number: int = signal.SIGTERM, timeout_s: float = EXIT_TIMEOUT_S) -> int:
        """Sends the signal and returns the exit status (negative: the signal that ended it)."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        return self.process.wait(timeout_s)

    def stderr(self) -> str:
        return self.log.read_text(errors="replace")


@pytest.fixture(scope="session")
def rouse() -> Path:
    """The binary under test."""
    path = Path(os.environ.get("ROUSE_BINARY") or ROOT / "build" / "release" / "rouse")
    if not path.exists():
        pytest.fail(f"{path} is not built: ./dev build rouse")
    return path


@pytest.fixture(scope="session")
def model() -> Path:
    """The real default model, a GGUF file of 98 MB. Read it, never write it."""
    path = Path(os.environ.get("ROUSE_MODEL") or user_cache() / "models" / DEFAULT_MODEL_FILE)
    if not path.exists():
        pytest.fail(f"{path} is not there: ./dev run fetches it")
    return path


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """llama.cpp's own server, as a peer; skipped only outside of ./dev test, which builds it."""
    path = os.environ.get("ROUSE_LLAMA_SERVER")
    if not path:
        pytest.skip("ROUSE_LLAMA_SERVER is not set; ./dev test builds it")
    return Path(path)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where this test's results go (ROUSE_DB); not there yet."""
    return tmp_path / "results.sqlite"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter. Not below pytest's own: each session of this user closes
    that to others when it begins, so a second one would shut out what runs as somebody else."""
    with tempfile.TemporaryDirectory(prefix="rouse-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def environment(tmp_path: Path, database: Path) -> dict[str, str]:
    """What a command sees: its own database and home, the shared model cache, no colour, no key."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("ROUSE_", "XDG_", "OPENAI_"))}
    return {**kept, "HOME": str(home), "ROUSE_DB": str(database), "ROUSE_CACHE": str(user_cache()),
            "NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def run_rouse(rouse: Path, environment: dict[str, str]):
    """run_rouse("models", "--json", timeout=10, env={...}, input="...") -> Finished."""

    def run(*arguments, timeout: float = COMMAND_TIMEOUT_S, env: dict | None = None,
            input: str | None = None, cwd: Path | None = None,
            binary: str | Path = rouse) -> Finished:
        started = time.monotonic()
        answer = subprocess.run(
            [str(binary), *map(str, arguments)], capture_output=True, text=True, errors="replace",
            env={**environment, **(env or {})}, timeout=timeout, check=False, cwd=cwd,
            **({"input": input} if input is not None else {"stdin": subprocess.DEVNULL}))
        return Finished(answer.returncode, answer.stdout, answer.stderr,
                        time.monotonic() - started)

    return run


def reserve_port(stack: contextlib.ExitStack) -> int:
    """A port of 127.0.0.1 that nobody listens on, until the stack is closed. It lies below those
    that the kernel gives away by itself (to --port 0, to the near end of a connection), and no
    other test takes it: a socket of this process has its number as its name."""
    kernels = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    first = max(kernels, 20000) - 10000
    for port in random.sample(range(first, first + 10000), 200):
        mark = stack.enter_context(socket.socket(socket.AF_UNIX))
        with contextlib.suppress(OSError), socket.socket() as probe:
            mark.bind(f"\0rouse-test-port-{port}")
            probe.bind(("127.0.0.1", port))
            return port
    pytest.fail("none of 200 ports is free")


@pytest.fixture(scope="session")
def free_ports() -> Iterator:
    """free_ports() -> a further port, this session's. Prefer `--port 0` where that is possible."""
    with contextlib.ExitStack() as stack:
        yield lambda: reserve_port(stack)


@pytest.fixture
def free_port(free_ports) -> int:
    return free_ports()


def read_ready_line(process: subprocess.Popen, log: Path, timeout_s: float) -> dict:
    """The one JSON line with which a server says that it listens."""
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.append(process.stdout.readline()), daemon=True)
    reader.start()
    reader.join(timeout_s)
    if not lines or not lines[0].strip():
        status = process.poll()
        if status is None and not reader.is_alive():
            status = process.wait(EXIT_TIMEOUT_S)
        pytest.fail(f"rouse serve said nothing within {timeout_s} s (exit status {status}):\n"
                    + log.read_text(errors="replace"))
    ready = json.loads(lines[0])
    assert ready["schema"] == "rouse.ready/1", ready
    return ready


@pytest.fixture
def start_server(rouse: Path, environment: dict[str, str], tmp_path: Path):
    """start_server("--context", 512, env={...}) -> Server, as many as wanted; all are ended after
    the test. `--host 127.0.0.1 --port 0` and the default model unless given."""
    with contextlib.ExitStack() as stack:
        count = 0

        def start(*arguments, env: dict | None = None,
                  timeout: float = READY_TIMEOUT_S) -> Server:
            nonlocal count
            count += 1
            words = [str(word) for word in arguments]
            for flag, default in (("--model", "smollm2-135m"), ("--host", "127.0.0.1"),
                                  ("--port", "0")):
                if flag not in words:
                    words += [flag, default]
            log = tmp_path / f"serve-{count}.log"
            stream = stack.enter_context(open(log, "wb"))
            process = subprocess.Popen(
                [str(rouse), "serve", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=stream, text=True, env={**environment, **(env or {})})
            stack.callback(end_process, process)
            return Server(process, read_ready_line(process, log, timeout), log)

        yield start


@pytest.fixture
def server(start_server) -> Iterator[Server]:
    """One server with the default model. Listening, not necessarily loaded yet."""
    yield start_server()
