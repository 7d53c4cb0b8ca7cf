"""What a run shows of itself on a terminal: seen through a pseudo terminal, at several widths,
without UTF-8, resized, and cut by Ctrl-C."""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from screen import Screen  # noqa: E402

QUICK = ["measure", "--preset", "quick", "--repeat", "1", "--only", "warm", "--only",
         "page cache cold", "--seed", "1"]


class Terminal:
    """A command in a terminal of its own; what it prints goes through a Screen."""

    def __init__(self, command, environment, columns=80):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, environment)
        self.screen = Screen(columns)
        self.columns = columns
        self.raw = b""
        self.seen = []  # every picture that the screen showed
        self._set_size(columns)

    def _set_size(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def resize(self, columns):
        self._set_size(columns)
        self.screen.resize(columns)

    def read(self, timeout_s):
        """One piece of output; False at its end."""
        if not select.select([self.master], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self.screen.feed(data.decode("utf-8", "replace"))
        self.seen.append(self.screen.text())
        return bool(data)

    def until(self, words, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while words not in self.screen.text():
            assert time.monotonic() < deadline, self.screen.text()
            assert self.read(0.2), f"it ended without {words!r}: " + self.screen.text()

    def redrawn(self, words):
        """Until the picture with these words is there anew, and whole. One may have been on its way
        when this began, so twice. The test's time is the limit."""
        goal, size = self.raw.count(words) + 2, -1
        while self.raw.count(words) < goal or len(self.raw) > size:
            size = len(self.raw)
            assert self.read(0.3), self.screen.text()

    def wait(self, timeout_s=120):
        deadline = time.monotonic() + timeout_s
        while self.read(0.2):
            assert time.monotonic() < deadline, self.screen.text()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run_in(rouse, environment, arguments, columns=80, **changed):
    environment = {**environment, "TERM": "xterm-256color", **changed}
    return Terminal([str(rouse), *map(str, arguments)], environment, columns)


def live_lines(terminal):
    """Every line of the status that was ever to be seen."""
    return {line for picture in terminal.seen for line in picture.split("\n")
            if " left" in line or line.startswith("  TTFT ") or "page_cache =" in line}


def assert_nothing_stays(terminal):
    text = terminal.screen.text()
    for words in (" left", "TTFT ▁", "TTFT _", "waiting for its first token", "(page_cache ="):
        assert words not in text, text
    assert b"\x1b[?25l" not in terminal.raw  # the cursor was never hidden


def test_a_run_shows_where_it_is_and_leaves_only_its_report(rouse, environment):
    for columns in (80, 40):
        terminal = run_in(rouse, environment, QUICK, columns)
        assert terminal.wait() in (0, 1, 4), terminal.screen.text()
        lines = live_lines(terminal)
        assert any(line.startswith("[0/2] ") and line.endswith(" left") for line in lines), lines
        assert any(line.startswith("  TTFT ") and "last " in line for line in lines), lines
        assert all(len(line) <= columns - 3 for line in lines), lines
        assert_nothing_stays(terminal)
        assert "Saved as run" in terminal.screen.text()
        if columns == 80:
            assert terminal.screen.wraps == 0, terminal.screen.text()


def test_a_terminal_without_utf8_gets_ascii(rouse, environment):
    terminal = run_in(rouse, environment, [*QUICK, "--quiet"], LC_ALL="C", LANG="C")
    assert terminal.wait() in (0, 1, 4)
    assert terminal.raw.isascii()
    terminal = run_in(rouse, environment, QUICK, LC_ALL="C", LANG="C")
    assert terminal.wait() in (0, 1, 4)
    assert live_lines(terminal)
    assert terminal.raw.isascii(), [line for line in terminal.raw.split(b"\n")
                                    if not line.isascii()]
    assert_nothing_stays(terminal)


def test_a_terminal_that_gets_narrower_and_wider_keeps_no_leftovers(rouse, environment):
    terminal = run_in(rouse, environment,
                      ["measure", "--preset", "idle", "--idle", "50s", "--repeat", 1], 90)
    terminal.until("idle: ")
    for columns in (41, 100):
        terminal.resize(columns)
        terminal.redrawn(b"idle: ")
        assert terminal.screen.text().count("] ") == 1, terminal.screen.text()
        assert terminal.screen.text().count("idle: ") == 1, terminal.screen.text()
    os.write(terminal.master, b"\x03")
    assert terminal.wait() == 130
    assert_nothing_stays(terminal)


def test_an_idle_time_is_counted_down_and_ctrl_c_ends_it_cleanly(rouse, environment):
    terminal = run_in(rouse, environment,
                      ["measure", "--preset", "idle", "--idle", "0s,90s", "--repeat", 1,
                       "--seed", 3])
    terminal.until("idle: 1 min ")
    assert "no contact with the server before" in terminal.screen.text()
    first = terminal.screen.text()
    deadline = time.monotonic() + 20
    while terminal.screen.text() == first and time.monotonic() < deadline:
        terminal.read(1)
    assert terminal.screen.text() != first, "it does not count down"
    os.write(terminal.master, b"\x03")
    assert terminal.wait(30) == 130
    assert_nothing_stays(terminal)
    assert "what was measured is kept" in terminal.screen.text()
    assert terminal.screen.column == 0  # the prompt begins a line of its own


def test_without_a_terminal_there_is_one_line_for_each_attempt(run_rouse):
    answer = run_rouse(*QUICK)
    assert answer.status in (0, 1, 4), answer.stderr
    attempts = [line for line in answer.stderr.split("\n") if line.startswith("[")]
    assert len(attempts) == 2 and all("TTFT" in line for line in attempts), answer.stderr
    assert "\x1b" not in answer.stderr
