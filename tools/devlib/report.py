"""Numbered steps on stderr: in place on a terminal, plain lines elsewhere. Steps that had nothing
to do are told in one line together, so that a second ./dev run comes to the point."""
import contextlib
import os
import re
import shlex
import subprocess
import sys
import threading
import time

from devlib import children, paths

TITLE_WIDTH = 19
PLAIN_PROGRESS_EVERY_S = 30.0


class StepFailed(Exception):
    def __init__(self, message, command=None, log=None, tail=()):
        super().__init__(message)
        self.command = command
        self.log = log
        self.tail = tail


def format_seconds(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60}m{int(seconds) % 60:02d}s"


class Step:
    """One numbered step. `begin` says that there is work; without it the step counts as idle."""

    def __init__(self, report, number, title):
        self.report = report
        self.number = number
        self.title = title
        self.text = "ok"
        self.worked = False
        self.started = time.monotonic()
        self.last_plain = self.started

    def begin(self, text: str) -> None:
        if not self.worked or text != self.text:
            self.report.flush_idle()
            self.report.show(self, text + " ...", final=False)
        self.worked = True
        self.text = text

    def note(self, text: str) -> None:
        self.text = text

    def progress(self, done: int, total: int) -> None:
        if total <= 0:
            return
        percent = 100 * done // total
        now = time.monotonic()
        if self.report.terminal:
            bar = "#" * (percent // 10) + "-" * (10 - percent // 10)
            elapsed = format_seconds(now - self.started)
            self.report.show(self, f"{self.text}  {elapsed}  {bar} {percent:3d} %", final=False)
        elif now - self.last_plain >= PLAIN_PROGRESS_EVERY_S:
            self.last_plain = now
            self.report.show(self, f"{percent} % ({done} of {total})", final=False)


class Report:
    def __init__(self, total: int):
        self.total = total
        self.count = 0
        self.idle = []
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.failures = []

    def step(self, title: str, work):
        """Runs `work(step)`; its failure ends ./dev."""
        self.count += 1
        step = Step(self, self.count, title)
        try:
            result = work(step)
        except StepFailed as failure:
            self.tell_failure(step, failure)
            raise
        if step.worked:
            self.show(step, step.text, final=True)
        else:
            self.idle.append(step)
        return result

    def check(self, title: str, work) -> bool:
        """Runs `work(step)`; its failure is told now and counted, and the next steps still run."""
        try:
            self.step(title, work)
        except StepFailed:
            self.failures.append(title)
            return False
        return True

    def show(self, step: Step, text: str, final: bool) -> None:
        digits = len(str(self.total))
        line = f"[{step.number:>{digits}}/{self.total}] {step.title:<{TITLE_WIDTH}} {text}"
        if final:
            line = f"{line:<68}  {format_seconds(time.monotonic() - step.started)}"
        if self.terminal:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            shown = line if final else line[: columns - 1]
            sys.stderr.write("\r\033[K" + shown + ("\n" if final else ""))
        else:
            sys.stderr.write(line.rstrip() + "\n")
        sys.stderr.flush()

    def flush_idle(self) -> None:
        idle, self.idle = self.idle, []
        for step in idle:
            self.show(step, step.text, final=True)

    def finish(self) -> None:
        """After the last step: one line for all when none had anything to do."""
        if len(self.idle) == self.count:
            elapsed = format_seconds(time.monotonic() - self.started)
            sys.stderr.write(f"{self.count} set-up steps: all in place, {elapsed}\n")
            sys.stderr.flush()
            self.idle = []
        self.flush_idle()

    def tell_failure(self, step: Step, failure: StepFailed) -> None:
        self.flush_idle()
        self.show(step, "FAILED", final=True)
        lines = [str(failure)]
        if failure.command:
            shown = failure.command  # the log begins with all of it
            lines.append("command: " + (shown if len(shown) <= 500 else shown[:500] + " ..."))
        if failure.log:
            lines.append(f"log:     {failure.log}")
        lines += [f"| {line}" for line in failure.tail]
        sys.stderr.write("".join(f"      {line}\n" for line in lines))
        sys.stderr.flush()


def log_path(name: str):
    paths.LOGS.mkdir(parents=True, exist_ok=True)
    return paths.LOGS / f"{name}.log"


def telling(lines: list[str], tail: int | None) -> list[str]:
    """The lines that say what went wrong: from ninja's first FAILED on, else the last ones."""
    if tail is None:
        return lines
    for number, line in enumerate(lines):
        if line.startswith("FAILED:"):
            return lines[number:number + tail]
    return lines[-tail:]


def keep_rest(output, stream) -> None:
    with contextlib.suppress(ValueError, OSError):  # the log is closed already
        for line in output:
            stream.write(line)


def run_logged(step, argv, log_name, *, env=None, cwd=None, progress=None, tail=25, what=None):
    """Runs a command with all its output in a log file; `progress` is a pattern with two groups,
    done and total. Returns the output's lines; failing raises StepFailed with the last of them."""
    log = log_path(log_name)
    argv = [str(word) for word in argv]
    lines = []
    with open(log, "w", encoding="utf-8", buffering=1) as stream:
        stream.write(f"$ {shlex.join(argv)}\n")
        stream.flush()
        try:
            process = children.start(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})}, cwd=cwd, text=True, errors="replace")
        except OSError as error:
            raise StepFailed(f"{argv[0]}: {error.strerror}", shlex.join(argv), log) from error
        try:
            for line in process.stdout:
                stream.write(line)
                lines.append(line.rstrip("\n"))
                match = re.search(progress, line) if progress else None
                if match:
                    step.progress(int(match.group(1)), int(match.group(2)))
            status = children.wait(process)
        except KeyboardInterrupt:
            # What it says in the end goes to the log: with a full pipe it would not end.
            drain = threading.Thread(target=keep_rest, args=(process.stdout, stream), daemon=True)
            drain.start()
            children.end(process)
            drain.join(1)
            raise
    if status != 0:
        raise StepFailed(what or f"{os.path.basename(argv[0])} ended with status {status}",
                         shlex.join(argv), log, telling(lines, tail))
    return lines
