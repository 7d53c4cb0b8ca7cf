"""What a person sees of a run and of an attempt, held as golden text in tests/golden/report.

The run `quick` is a real one (docs/examples/quick.jsonl), the others are made. After a change that
is meant, ROUSE_UPDATE_GOLDEN=1 writes the files anew; read the difference before it is committed.
"""
import fcntl
import json
import os
import pty
import re
import sqlite3
import struct
import subprocess
import termios
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "report"
QUICK = ROOT / "docs" / "examples" / "quick.jsonl"
HOSTILE = "\x1b[31mred\x1b[2J\x07\nline\ttab \u202egnp.exe \u0085 <script>alert(1)</script>"
WIDE = "模型在内存之外的状态、とても長い条件の名前です、한국어로 쓴 이름"
LONG = "a condition whose name goes on and on " * 6

WARM = {"process": "running", "model": "loaded", "page_cache": "warm", "prefix_cache": "empty"}
QUICK_CONDITIONS = [
    ("warm", None, None, WARM),
    ("prefix hit", "warm", "prefix_cache", {**WARM, "prefix_cache": "hit"}),
    ("model unloaded", "warm", "model", {**WARM, "model": "unloaded"}),
    ("process new", "model unloaded", "process",
     {**WARM, "model": "unloaded", "process": "new"}),
    ("page cache cold", "process new", "page_cache",
     {**WARM, "model": "unloaded", "process": "new", "page_cache": "cold"}),
]


def attempt(condition="warm", outcome="ok", ttft=100_000_000, block=0, **fields):
    line = {"condition": condition, "outcome": outcome, "block": block, **fields}
    if outcome == "ok":
        line["ttft_ns"] = ttft
        line.setdefault("marks_ns", {"send_start": 0, "connected": ttft // 100,
                                     "first_token": ttft, "end": ttft + ttft // 100})
    return line


def stages(**ns):
    return {"stages_ns": {name: value for name, value in ns.items()}}


def failed_lines():
    return [attempt(condition, outcome, block=block, outcome_detail=detail,
                    marks_ns={"send_start": 0, "end": end})
            for block in range(6)
            for condition, outcome, detail, end in (
                ("warm", "timeout", "no first token within 2 min 0 s", 120_000_000_000),
                ("cold", "connect_error", "connection refused: 127.0.0.1:8080", 1_000_000))]


def hostile_lines():
    return [attempt(name, block=block, ttft=(50 + block) * 1_000_000,
                    outcome_detail=HOSTILE, api=HOSTILE,
                    counters={HOSTILE: 7, "target_major_faults": 23},
                    state_before={HOSTILE: {"value": HOSTILE, "proof": HOSTILE, "wanted": HOSTILE,
                                            "reached": True, "detail": HOSTILE}},
                    lanes=[{"name": HOSTILE, "start_ns": 0, "end_ns": 5_000_000, "bytes": 1}],
                    warnings=[{"code": HOSTILE, "message": HOSTILE + LONG}],
                    null_reasons={"ttfc_ns": HOSTILE})
            for block in range(6) for name in (HOSTILE, WIDE, LONG)]


RUNS = {
    "quick": None,  # the file
    "failed": failed_lines(),
    "one": [attempt(**stages(prefill=90_000_000, transport=10_000_000))],
    "mixed": [attempt(block=block, ttft=(90 + 7 * block % 5) * 1_000_000) for block in range(12)]
             + [attempt(outcome="state_not_reached", block=12,
                        outcome_detail="page_cache: wanted cold, read 12 % resident"),
                attempt(outcome="no_token", block=13, marks_ns={"send_start": 0, "end": 5})],
    "no_stages": [attempt(block=block, ttft=300_000 + block) for block in range(6)],
    "huge": [attempt(block=block, ttft=[1, 10**6, 10**9, 10**12, 10**15, 9 * 10**18][block])
             for block in range(6)],
    "hostile": hostile_lines(),
}


def declare(database: Path, conditions, **run) -> None:
    """Gives an imported run what only a measured one has (docs/results_format.md)."""
    with sqlite3.connect(database) as db:
        for name, value in run.items():
            db.execute(f"UPDATE runs SET {name} = ?", (value,))
        db.execute("DELETE FROM conditions")
        for ordinal, (name, base, changed, state) in enumerate(conditions):
            db.execute("INSERT INTO conditions (run, ordinal, name, base, changed, compound)"
                       " VALUES (1, ?, ?, ?, ?, 0)", (ordinal, name, base, changed))
            db.executemany("INSERT INTO condition_states VALUES (1, ?, ?, ?)",
                           [(ordinal, layer, value) for layer, value in state.items()])


@pytest.fixture
def store(run_rouse, tmp_path, database):
    def make(name: str) -> None:
        path = QUICK
        if RUNS[name] is not None:
            path = tmp_path / f"{name}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in RUNS[name]))
        assert run_rouse("import", path, "--quiet").status == 0
        if name == "quick":
            declare(database, QUICK_CONDITIONS, kind="measure", target="builtin",
                    model="smollm2-135m", rouse_version="0.1.0", name="quick")
        if name == "hostile":
            declare(database, [(HOSTILE, None, None, {}), (WIDE, HOSTILE, HOSTILE, {}),
                               (LONG, WIDE, "page_cache", {"page_cache": "0.5"})],
                    target=HOSTILE, model=HOSTILE, rouse_version="0.1.0", name=HOSTILE)
        with sqlite3.connect(database) as db:  # the same whatever the version
            db.execute("UPDATE runs SET rouse_version = '0.1.0'")

    return make


def hold(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ROUSE_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"ROUSE_UPDATE_GOLDEN=1 writes {path}"
    assert text == path.read_text()


def columns_of(line: str) -> int:
    """Display columns, counted apart from the program's own table."""
    return sum(0 if unicodedata.combining(c) else
               2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.parametrize("name", sorted(RUNS))
def test_report_of_a_run_is_the_golden_text(run_rouse, store, name):
    store(name)
    report = run_rouse("report", 1)
    assert report.status == 0
    hold(name, report.stdout)


@pytest.mark.parametrize("name, attempt_id", [("quick", 17), ("failed", 1), ("one", 1),
                                              ("huge", 4), ("hostile", 2)])
def test_report_of_an_attempt_is_the_golden_text(run_rouse, store, name, attempt_id):
    store(name)
    report = run_rouse("report", f"1#{attempt_id}")
    assert report.status == 0, report.stderr
    hold(f"{name}_attempt", report.stdout)


def test_a_locale_without_utf8_gets_ascii_only(run_rouse, store):
    store("quick")
    plain = run_rouse("report", 1, env={"LC_ALL": "C"}).stdout
    assert plain.isascii()
    hold("quick_ascii", plain)
    assert run_rouse("report", "1#3", env={"LC_ALL": "C"}).stdout.isascii()
    assert not run_rouse("report", 1, env={"LC_ALL": "C.UTF-8"}).stdout.isascii()


def test_colour_adds_nothing_but_colour(run_rouse, store):
    store("quick")
    coloured = run_rouse("report", 1, "--color", "always").stdout
    assert "\x1b[" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == run_rouse("report", 1).stdout
    hold("quick_colour", coloured)
    one = run_rouse("report", "1#3", "--color", "always").stdout
    assert re.sub("\x1b\\[[0-9;]*m", "", one) == run_rouse("report", "1#3").stdout


def test_a_run_without_attempts_says_so(run_rouse, store, database):
    store("one")
    with sqlite3.connect(database) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM attempts")
        db.execute("UPDATE runs SET status = 'interrupted'")
    report = run_rouse("report", 1)
    assert report.status == 0
    hold("empty", report.stdout)


def on_a_terminal(rouse, environment, width: int, *arguments) -> str:
    """stdout of a command whose stdout is a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = subprocess.Popen([str(rouse), *map(str, arguments)], stdout=theirs,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(ours)
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait(20) == 0, stderr
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("name", sorted(RUNS))
def test_nothing_wraps_at_any_width_from_sixty(rouse, environment, store, name):
    store(name)
    commands = [("report", 1), ("report", "1#2" if name == "quick" else "1#1"), ("list",)]
    if name in ("quick", "mixed"):
        commands.append(("explain", 1))
    for width in (60, 61, 67, 72, 79, 80, 93, 100, 120, 200):
        for command in commands:
            if command[0] == "explain" and width < 80:
                continue  # explain has 80 columns of its own
            shown = on_a_terminal(rouse, environment, width, *command)
            for line in shown.split("\n"):
                # A command to paste is never broken.
                if not line.startswith("  rouse "):
                    assert columns_of(line) <= width, (command, width, line)


@pytest.mark.parametrize("command", [
    ("report", "1"), ("report", "1#3"), ("report", "1#2", "--color", "always"), ("list",),
    ("explain", "1"), ("explain", "1#2"), ("explain", "1#3"),
    ("compare", "1:nothing", f"1:{WIDE}"), ("compare", f"1:{HOSTILE}", f"1:{WIDE}"),
    ("compare", f"1:{LONG}", f"1:{HOSTILE}", "--expect", "equal", "--margin", "10%")])
def test_hostile_names_never_steer_the_terminal(run_rouse, store, command):
    store("hostile")
    finished = run_rouse(*command)
    for text in (finished.stdout, finished.stderr):
        text = re.sub("\x1b\\[[0-9;]*m", "", text) if "--color" in command else text
        bad = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
        assert not bad, (command, bad)
