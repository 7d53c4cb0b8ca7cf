"""How every benchmark is run: SIGTERM ends it as Ctrl-C does, so that its servers, loads, control
groups and files go; of what it has started nothing outlives it, however it ends."""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
END_S = 20
BENCHMARK = os.getpid()


def main(run: Callable[[], int | None], told: str = "interrupted") -> None:
    def interrupt(*_unused):
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):  # a shell's background jobs ignore the latter
        signal.signal(number, interrupt)
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        print(told, file=sys.stderr, flush=True)
        sys.exit(130)


def die_with_parent() -> None:
    """For a child, before it becomes another program: the kernel kills it when the benchmark is
    gone. Not inherited by its own children."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != BENCHMARK:  # it went in between, and nobody will tell
        os._exit(1)


def start(command: list, before: Callable[[], None] = lambda: None, **options) -> subprocess.Popen:
    """A server or a load, in a process group of its own, so that `end` reaches its children too;
    `before` is what the new process does first."""
    def prepare():
        die_with_parent()
        before()

    return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, process_group=0,
                            preexec_fn=prepare, **options)


def end(process: subprocess.Popen, number: int = signal.SIGTERM) -> None:
    try:
        if process.poll() is None:
            process.send_signal(number)
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(command: list, **options) -> subprocess.CompletedProcess:
    """Its output as text, its status whatever it is."""
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          preexec_fn=die_with_parent, **options)


def wait_for(holds: Callable[[], object], what: str, seconds: float = 120.0):
    """The first value that is true."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.01)
    return value
