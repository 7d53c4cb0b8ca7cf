"""rouse measure on the real binary and the real model: states, stages, order, and every way to end
early."""
import json
import os
import re
import resource
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

QUICK = ["warm", "prefix hit", "model unloaded", "process new", "page cache cold"]
STAGES = {"queue", "process_start", "weights", "runtime_init", "tokenize", "prefill",
          "first_decode", "transport", "unattributed"}
MEASURE_TIMEOUT_S = 110


def servers_of(marker: str) -> list[int]:
    """Processes whose environment holds ROUSE_TEST_MARKER=marker, zombies left out."""
    found = []
    wanted = f"ROUSE_TEST_MARKER={marker}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until(condition, timeout_s: float = 20.0, what: str = "") -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)


def stored_attempts(database: Path) -> int:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as connection:
            return connection.execute("SELECT count(*) FROM attempts").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


@pytest.fixture(scope="module")
def quick(rouse, tmp_path_factory):
    """One quick run with two repeats, shared by the tests that only look at it."""
    folder = tmp_path_factory.mktemp("quick")
    home = folder / "home"
    home.mkdir()
    cache = os.environ.get("ROUSE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rouse")
    environment = {**os.environ, "HOME": str(home), "ROUSE_CACHE": cache, "NO_COLOR": "1"}
    database = folder / "r.sqlite"
    answer = subprocess.run(
        [str(rouse), "measure", "--repeat", "2", "--seed", "4711", "--json", "--db",
         str(database)], capture_output=True, text=True, timeout=MEASURE_TIMEOUT_S,
        env=environment, stdin=subprocess.DEVNULL, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout), answer.stderr, database


def measured(report: dict) -> list[dict]:
    return [attempt for attempt in report["attempts"] if attempt.get("block") is not None]


def test_json_is_the_report_with_its_attempts(quick):
    report, _, _ = quick
    assert report["schema"] == "rouse.report/1"
    assert [condition["name"] for condition in report["conditions"]] == QUICK
    for condition in report["conditions"]:
        assert condition["n"] == 2
        assert condition["outcomes"] == {"ok": 2}, report
        assert condition["ttft_ns"]["median"] > 0
        interval = condition["ttft_ns"]["median_ci"]
        assert interval is None or None in interval
    assert len(measured(report)) == 10
    for attempt in measured(report):
        assert attempt["schema"] == "rouse.attempt/1"


def test_stages_sum_to_the_ttft_and_leave_little_unattributed(quick):
    report, _, _ = quick
    over = {}  # by how much more than it may be
    for attempt in measured(report):
        stages = attempt["stages_ns"]
        assert set(stages) == STAGES
        assert sum(stages.values()) == attempt["ttft_ns"], attempt["condition"]
        assert all(value >= 0 for value in stages.values())
        bound = max(attempt["ttft_ns"] // 50, 1_000_000)
        over.setdefault(attempt["condition"], []).append(stages["unattributed"] - bound)
    # In one of them client or server may have waited for a core.
    assert max(map(min, over.values())) <= 0, over


def test_every_state_is_reached_and_proved(quick):
    report, _, _ = quick
    for attempt in measured(report):
        condition = attempt["condition"]
        for reading in attempt["state_before"].values():
            assert reading["reached"] is not False, (condition, reading)
        page_cache = attempt["state_at_send"]["page_cache"]
        assert page_cache["proof"] in ("cachestat", "mincore")
        if condition == "page cache cold":
            assert page_cache["value"] <= 0.01
        else:
            assert page_cache["value"] >= 0.99
        process = attempt["state_before"]["process"]["value"]
        new = condition in ("process new", "page cache cold")
        assert process == ("none" if new else "running")
        assert attempt["state_before"]["model"]["value"] == (
            "loaded" if condition in ("warm", "prefix hit") else "unloaded")
        cached = attempt["tokens"]["cached"]
        if condition == "prefix hit":
            assert cached >= attempt["tokens"]["prompt"] - 1
        else:
            assert cached == 0


def test_stages_tell_what_each_condition_waited_for(quick):
    report, _, _ = quick
    for attempt in measured(report):
        stages, condition = attempt["stages_ns"], attempt["condition"]
        new = condition in ("process new", "page cache cold")
        assert (stages["process_start"] > 0) == new
        if condition in ("warm", "prefix hit"):
            assert stages["weights"] == 0
        assert (attempt["tries"] or 1) >= 1


def test_counters_agree_with_the_states(quick):
    report, _, _ = quick
    for attempt in measured(report):
        counters = attempt["counters"]
        assert counters["target_rss_bytes"] > 50_000_000
        assert counters["target_cpu_ns"] > 0
        if attempt["condition"] == "page cache cold":
            assert counters["target_read_bytes"] >= 49_000_000
        else:
            assert counters["target_read_bytes"] <= 1_000_000, attempt["condition"]
        assert "psi_io_full_us" in counters


def test_the_run_is_stored_with_its_plan_environment_and_calibration(quick):
    _, _, database = quick
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        run = connection.execute("SELECT * FROM runs").fetchone()
    assert run["status"] == "complete"
    assert re.fullmatch("[0-9a-f]{64}", run["plan_hash"])
    assert "[[condition]]" in run["plan_toml"]


def test_it_says_where_the_results_are_and_what_the_client_adds(quick):
    _, stderr, database = quick
    assert str(database) in stderr
    assert "seed 4711" in stderr
    assert "Client overhead" in stderr


def test_no_server_is_left_behind(run_rouse):
    answer = run_rouse("measure", "--only", "warm", "--repeat", 1, "--json", timeout=60,
                       env={"ROUSE_TEST_MARKER": "left"})
    assert answer.status == 0, answer.stderr
    wait_until(lambda: not servers_of("left"), what="the server to end")


def test_the_table_is_for_people_and_80_columns_wide(run_rouse):
    answer = run_rouse("measure", "--only", "warm", "--only", "prefix hit", "--repeat", 2,
                       timeout=60)
    assert answer.status == 0, answer.stderr
    words = " ".join(answer.stdout.split())
    assert "Every state was read back before the request: 4 of 4 reached." in words
    assert "Stages add up to TTFT in 4 of 4." in words
    assert "prefix" in answer.stdout and "Saved as run 1" in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) <= 80


def test_the_order_is_drawn_from_the_seed(run_rouse):
    first = run_rouse("measure", "--dry-run", "--json", "--seed", 7).json()
    again = run_rouse("measure", "--dry-run", "--json", "--seed", 7).json()
    other = run_rouse("measure", "--dry-run", "--json", "--seed", 8).json()
    assert first == again
    assert first["schema"] == "rouse.schedule/1"
    assert first["seed"] == 7
    order = [attempt["condition"] for attempt in first["attempts"]]
    assert order != [attempt["condition"] for attempt in other["attempts"]]
    assert len(order) == 30
    for block in range(6):
        assert sorted(order[block * 5:block * 5 + 5]) == sorted(QUICK)


def test_the_measured_order_is_the_dry_runs(quick, run_rouse):
    report, _, _ = quick
    planned = run_rouse("measure", "--dry-run", "--json", "--seed", 4711, "--repeat", 2).json()
    assert [attempt["condition"] for attempt in planned["attempts"]] == [
        attempt["condition"] for attempt in sorted(measured(report), key=lambda a: a["position"])]


def test_a_dry_run_runs_and_writes_nothing(run_rouse, database):
    answer = run_rouse("measure", "--dry-run", env={"ROUSE_TEST_MARKER": "dry"})
    assert answer.status == 0
    assert "cachestat" in answer.stdout and "Nothing was run." in answer.stdout
    assert not database.exists()
    assert not servers_of("dry")


def test_print_plan_gives_a_plan_that_is_accepted(run_rouse, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(run_rouse("measure", "--preset", "quick", "--print-plan").stdout)
    ours = run_rouse("measure", plan, "--dry-run", "--json", "--seed", 1).json()
    preset = run_rouse("measure", "--dry-run", "--json", "--seed", 1).json()
    assert ours["plan_hash"] == preset["plan_hash"]


def test_the_users_own_plan_is_not_written_over(run_rouse, tmp_path, database):
    folder = tmp_path / "exp1"
    folder.mkdir()
    plan = folder / "plan.toml"
    text = "# why\n" + run_rouse("measure", "--print-plan").stdout
    plan.write_text(text)
    link = tmp_path / "same"
    link.symlink_to(folder)
    for flags in (["--out", folder], ["--out", link], ["--html", plan],
                  ["--dry-run", "--out", link]):
        answer = run_rouse("measure", plan, "--only", "warm", *flags)
        assert answer.status == 2, answer.stderr
        assert f"over the plan {plan}" in answer.stderr
        assert plan.read_text() == text
    assert not database.exists()


def test_the_plan_may_stand_behind_any_option(run_rouse, tmp_path, database):
    plan = tmp_path / "mine.toml"
    plan.write_text(run_rouse("measure", "--print-plan").stdout)
    dry = ("--dry-run", "--json", "--seed", "1")
    whole = run_rouse("measure", plan, *dry).json()
    assert run_rouse("measure", *dry, "--resume", plan).json() == whole
    warm = run_rouse("measure", *dry, "--only", "warm", plan)
    assert {each["condition"] for each in warm.json()["attempts"]} == {"warm"}
    two = run_rouse("measure", *dry, "--only", "warm", "--only", "process new", plan)
    assert {each["condition"] for each in two.json()["attempts"]} == {"warm", "process new"}
    paths = run_rouse("measure", *dry, "--path", f"a={tmp_path}", "--path", f"b={tmp_path}", plan)
    assert paths.status == 0, paths.stderr
    soon = run_rouse("measure", "--resume", "soon")
    assert soon.status == 2 and "takes the number of a run" in soon.stderr


@pytest.mark.parametrize("arguments, words", [
    (["--preset", "quik"], 'did you mean "quick"?'),
    (["--repeats", "3"], "--repeat"),
    (["--repeat", "0"], "--repeat"),
    (["--repeat", "x"], "--repeat"),
    (["--seed", "-1"], "--seed"),
    (["--only", "wram"], 'did you mean "warm"?'),
    (["--idle", "soon"], "--idle"),
    (["--target", "nowhere"], "--target"),
    (["nothing.toml"], "nothing.toml"),
    (["--model-file", "x.gguf"], "--model-file"),
])
def test_a_mistake_on_the_command_line_is_exit_2_and_runs_nothing(run_rouse, database, arguments,
                                                                  words):
    answer = run_rouse("measure", *arguments)
    assert answer.status == 2, answer.stderr
    assert words in answer.stderr
    assert answer.stdout == ""
    assert not database.exists()


def test_a_mistake_in_a_plan_names_file_and_line(run_rouse, tmp_path, database):
    plan = tmp_path / "plan.toml"
    plan.write_text('[experiment]\nname = "x"\n[[condition]]\nname = "a"\n'
                    'state = { page_cach = "cold" }\n')
    answer = run_rouse("measure", plan)
    assert answer.status == 2
    assert f'{plan}:5: unknown key "page_cach"' in answer.stderr
    assert 'did you mean "page_cache"?' in answer.stderr
    assert not database.exists()


def test_a_model_that_is_not_there_says_how_to_get_one(run_rouse):
    answer = run_rouse("measure", "--model", "smollm3-135m")
    assert answer.status == 2, answer.stderr
    assert "smollm2-135m" in answer.stderr
    missing = run_rouse("measure", "--model", "/nonexistent/model.gguf")
    assert missing.status == 3
    assert "/nonexistent/model.gguf" in missing.stderr


def test_a_database_that_is_not_sqlite_is_left_as_it_was(run_rouse, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but mine\n" * 100)
    answer = run_rouse("measure", "--db", file)
    assert answer.status == 3
    assert str(file) in answer.stderr
    assert file.read_text() == "not a database, but mine\n" * 100


def test_a_database_that_cannot_be_written_is_exit_3(run_rouse, tmp_path):
    folder = tmp_path / "file-in-the-way"
    folder.write_text("")
    answer = run_rouse("measure", "--db", folder / "r.sqlite")
    assert answer.status == 3
    assert "file-in-the-way" in answer.stderr


def test_a_full_disk_is_exit_3_and_keeps_what_fitted(rouse, environment, database, run_rouse):
    """A limit on file sizes stands for a full disk: the write fails in the middle of the run."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))

    answer = subprocess.run(
        [str(rouse), "measure", "--only", "warm", "--repeat", "2000"], capture_output=True,
        text=True, stdin=subprocess.DEVNULL, timeout=MEASURE_TIMEOUT_S, check=False,
        env={**environment, "ROUSE_TEST_MARKER": "full"}, preexec_fn=limit,
        restore_signals=False)  # Python ignores SIGXFSZ, and so does what it starts
    assert answer.returncode == 3, answer.stderr
    assert str(database) in answer.stderr
    assert not servers_of("full")
    assert stored_attempts(database) >= 1
    assert run_rouse("report", 1, "--json").status == 0


class Measuring:
    """A `rouse measure` that runs in the background."""

    def __init__(self, rouse, environment, marker, *arguments):
        self.marker = marker
        self.process = subprocess.Popen(
            [str(rouse), "measure", *map(str, arguments)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**environment, "ROUSE_TEST_MARKER": marker})

    def finish(self):
        stdout, stderr = self.process.communicate(timeout=60)
        return self.process.returncode, stdout, stderr


@pytest.fixture
def measuring(rouse, environment):
    started = []

    def start(marker, *arguments):
        started.append(Measuring(rouse, environment, marker, *arguments))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate(timeout=20)


def test_a_killed_tool_leaves_no_server_and_keeps_its_attempts(measuring, run_rouse, database):
    tool = measuring("kill", "--only", "warm", "--repeat", 500)
    wait_until(lambda: stored_attempts(database) >= 3, 60, "three attempts")
    assert len(servers_of("kill")) >= 2
    tool.process.kill()
    tool.finish()
    wait_until(lambda: not servers_of("kill"), what="the server to end with the tool")
    kept = stored_attempts(database)
    assert kept >= 3
    assert run_rouse("list", "--json").json()["runs"][0]["attempts"] >= 2
    # The database goes on being usable.
    assert run_rouse("measure", "--only", "warm", "--repeat", 1, timeout=60).status == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_measured(measuring, database, number):
    tool = measuring("int", "--only", "warm", "--repeat", 500)
    wait_until(lambda: stored_attempts(database) >= 3, 60, "three attempts")
    tool.process.send_signal(number)
    status, stdout, stderr = tool.finish()
    assert status == 130, stderr
    assert "interrupted" in stderr and str(database) in stderr
    assert "TTFT" in stdout
    assert stored_attempts(database) >= 3
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT status FROM runs").fetchone()[0] == "interrupted"
    wait_until(lambda: not servers_of("int"), what="the server to end")


def test_a_killed_run_is_resumed_to_its_end(measuring, run_rouse, database):
    tool = measuring("resume", "--only", "warm", "--repeat", 20, "--seed", 3)
    wait_until(lambda: stored_attempts(database) >= 2, 60, "two attempts")
    tool.process.kill()
    tool.finish()
    kept = stored_attempts(database)
    assert run_rouse("measure", "--resume", 1, "--repeat", 9).status == 2
    assert run_rouse("measure", "--resume", 7).status == 2
    answer = run_rouse("measure", "--resume", "--json", timeout=100)
    assert answer.status == 0, answer.stderr
    report = answer.json()
    assert report["conditions"][0]["n"] == 20
    whole = [a for a in measured(report) if a["outcome"] != "interrupted"]
    assert sorted(a["position"] for a in whole) == list(range(20))
    # The one in flight stays as an interrupted attempt (none, when the kill fell between two).
    cut = [a for a in measured(report) if a["outcome"] == "interrupted"]
    assert len(cut) <= 1
    primes = 2  # of the run, and of what was resumed
    assert stored_attempts(database) == primes + 20 + len(cut) >= kept
    again = run_rouse("measure", "--resume", 1)
    assert again.status == 2 and "complete" in again.stderr


FAKE_SERVER = '''
import http.server, json, os, sys, time
port, mode = int(sys.argv[1]), sys.argv[2]
if mode == "dies":
    sys.exit("boom: no such weights")
if mode == "never":
    time.sleep(600)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        count = Handler.count = Handler.count + 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        def event(text):
            self.wfile.write(("data: " + text + "\\n\\n").encode())
            self.wfile.flush()
        token = json.dumps({"choices": [{"index": 0, "delta": {"content": "hi"}}]})
        time.sleep(0.02)
        event(token)
        if mode == "answer-dies" and count % 4 == 0:
            print("boom: out of memory", file=sys.stderr, flush=True)
            os._exit(9)
        event(token)
        event("[DONE]")
        self.close_connection = True
    def log_message(self, *arguments):
        pass
Handler.count = 0
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
'''


@pytest.fixture
def fake_server(tmp_path):
    script = tmp_path / "fake_server.py"
    script.write_text(FAKE_SERVER)

    def target(mode):
        return f"cmd:{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{port}} {mode}"

    return target


def test_an_interrupt_ends_the_wait_for_a_server_that_never_listens(measuring, fake_server,
                                                                    database):
    tool = measuring("never", "--target", fake_server("never"), "--only", "warm", "--repeat", 3)

    def is_started():
        words = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                 for pid in servers_of("never")]
        return any(b"never" in each and b"measure" not in each for each in words)

    wait_until(is_started, what="the server to be started")
    tool.process.send_signal(signal.SIGINT)
    status, _, stderr = tool.finish()
    assert status == 130, stderr
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT outcome FROM attempts").fetchall() == [("interrupted",)]
        assert connection.execute("SELECT status FROM runs").fetchone()[0] == "interrupted"
    wait_until(lambda: not servers_of("never"), what="the server to end")


def test_a_command_is_a_target_too(run_rouse, fake_server):
    answer = run_rouse("measure", "--target", fake_server("fine"), "--only", "warm", "--repeat", 3,
                       "--json", timeout=60, env={"ROUSE_TEST_MARKER": "command"})
    assert answer.status == 0, answer.stderr
    report = answer.json()
    assert report["conditions"][0]["outcomes"] == {"ok": 3}
    for attempt in measured(report):
        assert attempt["ttft_ns"] >= 20_000_000
        assert attempt["stages_ns"]["prefill"] is None
        known = [value for value in attempt["stages_ns"].values() if value is not None]
        assert sum(known) == attempt["ttft_ns"]
    assert not servers_of("command")


def test_a_server_that_starts_and_dies_shows_its_last_words(run_rouse, fake_server):
    answer = run_rouse("measure", "--target", fake_server("dies"), "--only", "warm", timeout=60)
    assert answer.status == 3
    assert "boom: no such weights" in answer.stderr
    assert "exited with status 1" in answer.stderr


def test_a_server_that_never_listens_ends_at_the_plans_timeout(run_rouse, fake_server, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[experiment]\nname = "never"\ntimeout = "2s"\n[target]\nkind = "command"\n'
                    f'command = {json.dumps(fake_server("never")[4:])}\n'
                    '[[condition]]\nname = "warm"\n')
    answer = run_rouse("measure", plan, timeout=60, env={"ROUSE_TEST_MARKER": "never"})
    assert answer.status == 3
    assert "did not accept a connection in time" in answer.stderr
    assert not servers_of("never")


def test_a_server_that_dies_in_the_middle_of_an_answer_is_an_outcome(run_rouse, fake_server):
    answer = run_rouse("measure", "--target", fake_server("answer-dies"), "--only", "warm",
                       "--repeat", 4, "--json", timeout=60)
    assert answer.status == 0, answer.stderr
    report = answer.json()
    outcomes = report["conditions"][0]["outcomes"]
    assert sum(outcomes.values()) == 4
    assert outcomes["target_exited"] >= 1, outcomes
    died = [a for a in measured(report) if a["outcome"] == "target_exited"]
    assert "boom: out of memory" in died[0]["outcome_detail"]
    # It is in n, ranked after every success.
    assert report["conditions"][0]["n"] == 4


def test_hypotheses_decide_the_exit_status(run_rouse, tmp_path):
    head = '[experiment]\nname = "h"\nrepeat = 6\nseed = 1\n'
    conditions = run_rouse("measure", "--only", "warm", "--only", "prefix hit",
                           "--print-plan").stdout
    conditions = head + conditions[conditions.index("prompt = "):]
    for expect, margin, status in (("decrease", "1us", 0), ("increase", "1us", 1)):
        plan = tmp_path / f"{expect}.toml"
        plan.write_text(conditions + '\n[[hypothesis]]\nname = "a hit is faster"\n'
                        'treatment = "prefix hit"\ncontrol = "warm"\n'
                        f'expect = "{expect}"\nmargin = "{margin}"\n')
        answer = run_rouse("measure", plan, timeout=60)
        assert answer.status == status, answer.stdout + answer.stderr


def test_a_server_given_by_its_url_is_measured_by_what_can_be_set_from_outside(run_rouse,
                                                                               start_server):
    server = start_server()
    answer = run_rouse("measure", "--target", server.url, "--only", "warm", "--only", "prefix hit",
                       "--repeat", 2, "--json", timeout=100)
    assert answer.status == 0, answer.stderr
    report = answer.json()
    for attempt in measured(report):
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
        # It runs on this machine, so its processes are found by the port that they listen on.
        assert attempt["counters"]["target_read_bytes"] == 0
        assert attempt["counters"]["target_rss_bytes"] > 0
        assert attempt["state_before"]["process"]["reached"] is None
        prefix = attempt["state_after"]["prefix_cache"]
        assert prefix["reached"] is True, prefix
        hit = attempt["condition"] == "prefix hit"
        assert (attempt["tokens"]["cached"] >= attempt["tokens"]["prompt"] - 16) == hit
        # The server's own prefill time is the only stage that it tells a stranger.
        assert attempt["stages_ns"]["prefill"] > 0
        assert attempt["stages_ns"]["tokenize"] is None
    assert server.process.poll() is None


def test_target_arguments_are_one_change_and_restart_the_server(run_rouse, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[experiment]\nname = "threads"\nrepeat = 1\nseed = 1\n'
                    '[[condition]]\nname = "default"\n'
                    '[[condition]]\nname = "one thread"\nbase = "default"\n'
                    'target_args = ["--threads", "1"]\n')
    answer = run_rouse("measure", plan, "--json", timeout=100)
    assert answer.status == 0, answer.stderr
    pids = {a["condition"]: a["state_before"]["process"]["detail"]
            for a in measured(answer.json())}
    assert pids["default"] != pids["one thread"]
