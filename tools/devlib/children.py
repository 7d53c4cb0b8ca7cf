"""What ./dev starts: each command in a process group of its own, which is ended as a whole, because
a signal for ./dev alone (from a CI system, from `timeout`) reaches none of them."""
import contextlib
import os
import signal
import subprocess

PATIENCE_S = 20  # for what unwinds: pytest ends the servers of its tests
TERM_S = 5

living: set[subprocess.Popen] = set()


def start(argv: list[str], session: bool = False, **options) -> subprocess.Popen:
    """`session`: in one of its own, too. sudo stays in the terminal's own group: elsewhere it could
    not ask for a password."""
    if session:
        group = {"start_new_session": True}
    else:
        group = {} if argv[0] == "sudo" else {"process_group": 0}
    process = subprocess.Popen(argv, **group, **options)
    living.add(process)
    return process


def wait(process: subprocess.Popen) -> int:
    status = process.wait()
    living.discard(process)
    return status


def end(process: subprocess.Popen, patience_s: float = PATIENCE_S) -> None:
    """Ctrl-C for the group, SIGTERM for what is still there after that time, SIGKILL for the rest;
    a second interruption comes to the last at once."""
    try:
        for number, seconds in ((signal.SIGINT, patience_s), (signal.SIGTERM, TERM_S)):
            tell(process, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                break
    finally:
        tell(process, signal.SIGKILL)  # also what an ended one has left behind
        wait(process)


def tell(process: subprocess.Popen, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or root's
        if process.args[0] == "sudo":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)


def end_all() -> None:
    """Several at once, which nobody waits for one by one: none of them has anything to unwind."""
    for process in list(living):
        tell(process, signal.SIGKILL)
