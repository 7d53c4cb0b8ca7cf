"""rouse import, list and report: what goes in comes out, and what is wrong is refused."""
import csv
import io
import json
import re
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def line(condition="a", ttft_ns=5_000_000, outcome="ok", **fields) -> str:
    attempt = {"condition": condition, "outcome": outcome, **fields}
    if outcome == "ok":
        attempt["ttft_ns"] = ttft_ns
    return json.dumps(attempt)


@pytest.fixture
def import_lines(run_rouse, tmp_path):
    """import_lines([line, ...], "--name", "x") -> Finished of rouse import --json."""
    def run(lines, *arguments):
        path = tmp_path / "attempts.jsonl"
        path.write_text("\n".join(lines) + ("\n" if lines else ""))
        return run_rouse("import", path, "--json", *arguments)
    return run


@pytest.fixture
def condition_of(run_rouse, import_lines):
    """Imports attempts of one condition and returns its element of the report."""
    def run(lines):
        run_id = import_lines(lines).json()["run"]
        return run_rouse("report", run_id, "--json").json()["conditions"][0]
    return run


def test_an_import_comes_out_again(run_rouse, import_lines):
    given = {"schema": "rouse.attempt/1", "id": 7, "condition": "a b", "block": 2, "position": 5,
             "outcome": "ok", "ttft_ns": 124500000, "ttfc_ns": 125000000,
             "marks_ns": {"send_start": 0, "first_token": 124500000, "end": 180400000},
             "stages_ns": {"prefill": 124000000, "unattributed": 500000},
             "stage_source": {"prefill": "server"},
             "tokens": {"prompt": 12, "cached": 0},
             "counters": {"target_read_bytes": 98000000, "my_counter": 1.5, "unknown": None},
             "state_before": {"page_cache": {"value": 1.0, "proof": "cachestat", "wanted": "warm",
                                             "reached": True}},
             "server": {"timings": {"prompt_ms": 1.5}},
             "warnings": [{"code": "c", "message": "m"}],
             "my_field": {"kept": True}}
    finished = import_lines([json.dumps(given)], "--name", "mine")
    assert finished.status == 0, finished.stderr
    assert finished.json() == {"run": 1}
    assert "my_field" in finished.stderr
    report = run_rouse("report", "1", "--json", "--attempts").json()
    assert report["schema"] == "rouse.report/1"
    assert (report["run"], report["name"], report["kind"]) == (1, "mine", "import")
    attempt = report["attempts"][0]
    assert attempt["run"] == 1
    for key, value in given.items():
        if isinstance(value, dict) and key not in ("my_field", "server"):
            for inner, inner_value in value.items():
                if isinstance(inner_value, dict):
                    assert attempt[key][inner].items() >= inner_value.items()
                else:
                    assert attempt[key][inner] == inner_value, (key, inner)
        else:
            assert attempt[key] == value, key
    assert attempt["marks_ns"]["connected"] is None
    assert attempt["stages_ns"]["weights"] is None


@pytest.mark.parametrize("bad, words", [
    ('{"condition":"a","outcome":"ok","ttft_ns":-1}', "must not be negative"),
    ('{"condition":"a","outcome":"ok","ttft_ns":1e999}', "not finite"),
    ('{"condition":"a","outcome":"ok","ttft_ns":NaN}', "not JSON"),
    ('{"condition":"a","outcome":"ok"}', "ttft_ns"),
    ('{"outcome":"ok","ttft_ns":1}', "condition"),
    ('{"condition":"a","outcome":"great"}', "great"),
    ('{"condition":"a","outcome":"ok","ttft_ns":1,"id":1}', "stands twice (first in line 1)"),
    ("[1, 2]", "not a JSON object"),
    ("nonsense", "not JSON"),
])
def test_a_bad_line_is_refused_with_its_number_and_nothing_is_stored(import_lines, database, bad,
                                                                     words):
    finished = import_lines([line(id=1), line(id=2), bad, line(id=4)])
    assert finished.status == 2
    assert "attempts.jsonl:3:" in finished.stderr
    assert words in finished.stderr
    assert finished.stdout == ""
    assert not database.exists()


def test_an_empty_file_and_a_missing_one_are_refused(run_rouse, import_lines, database):
    assert import_lines([]).status == 2
    assert import_lines(["", "  "]).status == 2
    missing = run_rouse("import", "/nonexistent.jsonl")
    assert missing.status == 2
    assert "/nonexistent.jsonl" in missing.stderr
    assert not database.exists()


def test_an_import_reads_stdin(run_rouse):
    assert run_rouse("import", "-", "--json", input=line()).json() == {"run": 1}


def test_small_samples_get_no_percentiles_but_the_reason(condition_of):
    condition = condition_of([line(ttft_ns=v) for v in (4, 1, 3, 2)])
    ttft = condition["ttft_ns"]
    assert condition["n"] == ttft["n"] == 4
    assert condition["outcomes"] == {"ok": 4}
    assert ttft["median"] == 2.5
    assert ttft["max"] == 4
    assert ttft["median_ci"] is None and ttft["p90"] is None and ttft["p95_ci"] is None
    assert ttft["null_reasons"]["median_ci"] == "n = 4, needs 6"
    assert ttft["null_reasons"]["p90"] == "n = 4, needs 29"
    assert ttft["null_reasons"]["p95_ci"] == "n = 4, needs 72"


def test_percentiles_are_nearest_rank_with_exact_intervals(condition_of):
    stats = pytest.importorskip("scipy.stats")
    n = 400
    ttft = condition_of([line(ttft_ns=v) for v in range(n, 0, -1)])["ttft_ns"]
    assert (ttft["median"], ttft["p90"], ttft["p95"], ttft["p99"]) == (200.5, 360, 380, 396)
    for name, level in (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        # The values are their own ranks. ppf: the smallest k with P(B <= k) >= q.
        high = int(stats.binom.ppf(0.975, n, level)) + 1
        low = int(stats.binom.ppf(0.025, n, level))
        while stats.binom.cdf(low - 1, n, level) > 0.025:
            low -= 1
        while stats.binom.cdf(low, n, level) <= 0.025:
            low += 1
        assert ttft[f"{name}_ci"] == [low, high], name
        assert ttft[f"{name}_upper"] == int(stats.binom.ppf(0.95, n, level)) + 1


def test_failures_rank_after_every_success(condition_of):
    lines = [line(ttft_ns=v) for v in (10, 20, 30)]
    lines += [line(outcome="timeout", marks_ns={"end": 900}) for _ in range(4)]
    lines += [line(outcome="state_not_reached"), line(outcome="interrupted"),
              json.dumps({"condition": "a", "outcome": "ok", "ttft_ns": 1, "prime": True})]
    condition = condition_of(lines)
    assert condition["n"] == 7
    assert condition["outcomes"] == {"ok": 3, "timeout": 4, "state_not_reached": 1,
                                     "interrupted": 1}
    ttft = condition["ttft_ns"]
    assert ttft["censored"] == 4
    assert ttft["median"] == {"at_least": 900}
    assert ttft["median_ci"] == [10, {"at_least": 900}]
    assert ttft["max"] == {"at_least": 900}
    assert ttft["mean"] is None
    assert ttft["successes_only"]["median"] == 20
    assert ttft["successes_only"]["n"] == 3


def test_a_truncated_answer_is_a_failure_though_its_first_token_came(condition_of):
    truncated = json.dumps({"condition": "a", "outcome": "truncated", "ttft_ns": 5,
                            "marks_ns": {"end": 70}})
    ttft = condition_of([line(ttft_ns=10), truncated, line(ttft_ns=20)])["ttft_ns"]
    assert ttft["median"] == 20
    assert ttft["max"] == {"at_least": 70}


def test_report_without_a_number_shows_the_latest_run(run_rouse, import_lines):
    import_lines([line()], "--name", "first")
    import_lines([line()], "--name", "second")
    assert run_rouse("report", "--json").json()["name"] == "second"
    assert run_rouse("report", "last", "--json").json()["name"] == "second"
    table = run_rouse("report", "1")
    assert table.status == 0
    assert "a" in table.stdout and "\x1b" not in table.stdout


def test_an_unknown_run_is_a_mistake_in_the_command(run_rouse, import_lines):
    import_lines([line()])
    finished = run_rouse("report", "9")
    assert finished.status == 2
    assert "no run 9" in finished.stderr
    assert run_rouse("report", "x").status == 2
    assert run_rouse("report", "1#5").status == 2


def test_csv_has_a_row_per_attempt_and_empty_cells_for_what_was_not_measured(run_rouse,
                                                                             import_lines):
    import_lines([line(condition='with "quotes", and commas', ttft_ns=123),
                  line(outcome="timeout", outcome_detail="line\nbreak")])
    rows = list(csv.DictReader(io.StringIO(run_rouse("report", "--csv").stdout)))
    assert len(rows) == 2
    assert rows[0]["condition"] == 'with "quotes", and commas'
    assert rows[0]["ttft_ns"] == "123"
    assert rows[0]["stage_prefill_ns"] == ""
    assert rows[1]["outcome_detail"] == "line\nbreak"


def test_a_trace_holds_marks_segments_and_lanes(run_rouse, import_lines, tmp_path):
    import_lines([line(ttft_ns=3000, marks_ns={"send_start": 0, "connected": 1000,
                                               "first_token": 3000, "end": 9000},
                       segments=[{"stage": "prefill", "start_ns": 1000, "end_ns": 2500}],
                       lanes=[{"name": "reader", "start_ns": 500, "end_ns": 700, "bytes": 42}])])
    trace = tmp_path / "trace.json"
    assert run_rouse("report", "--trace", trace).status == 0
    events = json.loads(trace.read_text())["traceEvents"]
    spans = {event["name"]: event for event in events if event["ph"] == "X"}
    assert (spans["prefill"]["ts"], spans["prefill"]["dur"]) == (1.0, 1.5)
    assert (spans["connect"]["ts"], spans["connect"]["dur"]) == (0, 1.0)
    assert spans["reader"]["args"] == {"bytes": 42}
    assert {event["name"] for event in events if event["ph"] == "i"} >= {"first_token", "end"}


def test_list_shows_the_runs(run_rouse, import_lines):
    assert run_rouse("list", "--json").json() == {"runs": []}
    import_lines([line(), line(outcome="timeout")], "--name", "mine")
    runs = run_rouse("list", "--json").json()["runs"]
    assert len(runs) == 1
    assert (runs[0]["run"], runs[0]["name"], runs[0]["attempts"], runs[0]["failed"]) == \
        (1, "mine", 2, 1)
    assert "mine" in run_rouse("list").stdout


def test_list_says_what_came_out_and_of_a_command_its_program(
        run_rouse, import_lines, environment):
    import_lines([line(ttft_ns=10_900_000) for _ in range(3)]
                 + [line(condition="cold", ttft_ns=1_630_000_000, block=each) for each in range(3)]
                 + [line(condition="broken", outcome="timeout", block=each) for each in range(3)])
    import_lines([line(outcome="timeout")])
    import_lines([line(ttft_ns=42_000_000)])
    with sqlite3.connect(environment["ROUSE_DB"]) as store:
        store.execute("update runs set target = 'cmd:/opt/llama/bin/llama-server -m {model}'"
                      " where id = 3")
    told = run_rouse("list").stdout.splitlines()
    assert [text.strip() for text in told if text.startswith("      ")] == [
        "first token after 10.9 ms to 1.63 s, in too few attempts of 1 condition",
        "first token in too few attempts", "first token after 42.0 ms"]
    assert " on llama-server " in told[-2] and "/opt" not in told[-2]


def test_list_follows_what_others_store(rouse, environment, import_lines):
    import_lines([line()], "--name", "first")
    with subprocess.Popen([str(rouse), "list", "--follow", "--json"], env=environment,
                          stdout=subprocess.PIPE, text=True) as follower:
        try:
            assert json.loads(follower.stdout.readline())["name"] == "first"
            import_lines([line()], "--name", "second")
            assert json.loads(follower.stdout.readline())["name"] == "second"
        finally:
            follower.terminate()
        assert follower.wait(20) == 130


def test_a_database_that_is_none_is_refused_and_left_alone(run_rouse, import_lines, tmp_path,
                                                           database):
    database.write_text("this is a letter, not a database" * 40)
    before = database.read_bytes()
    for finished in (import_lines([line()]), run_rouse("list"), run_rouse("report")):
        assert finished.status == 3
        assert str(database) in finished.stderr and "not an SQLite" in finished.stderr
    assert database.read_bytes() == before


def test_a_database_of_a_later_version_is_refused(run_rouse, import_lines, database):
    import_lines([line()])
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 99")
    for finished in (import_lines([line()]), run_rouse("report")):
        assert finished.status == 3
        assert "later version" in finished.stderr


def test_a_missing_directory_and_a_missing_database_are_named(run_rouse, tmp_path):
    finished = run_rouse("import", "-", "--db", tmp_path / "no" / "r.sqlite", input=line())
    assert finished.status == 3
    assert "does not exist" in finished.stderr
    assert run_rouse("report", "--db", tmp_path / "none.sqlite").status == 3


def test_a_full_disk_is_said_and_leaves_the_earlier_runs(rouse, environment, run_rouse,
                                                         import_lines, tmp_path):
    import_lines([line()], "--name", "before")
    path = tmp_path / "big.jsonl"
    path.write_text("\n".join(line(ttft_ns=v + 1) for v in range(20_000)))
    finished = subprocess.run(
        ["bash", "-c", f'ulimit -f 600; exec "{rouse}" import "{path}"'], env=environment,
        capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode in (3, -25), finished.stderr  # -25: ended by SIGXFSZ
    runs = run_rouse("list", "--json").json()["runs"]
    assert [run["name"] for run in runs] == ["before"]


def test_the_example_queries_of_the_document_work(import_lines, database):
    given = [line(condition=c, ttft_ns=v, block=b, stages_ns={"prefill": v // 2},
                  counters={"target_read_bytes": v},
                  state_before={"page_cache": {"value": 1.0, "proof": "cachestat"}})
             for b in range(6) for c, v in (("warm", 100 + b), ("page cache cold", 300 + b))]
    import_lines(given + [line(outcome="timeout", condition="warm")])
    text = (ROOT / "docs" / "results_format.md").read_text()
    queries = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert len(queries) >= 5
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        for query in queries:
            assert connection.execute(query).fetchall(), query


def test_json_stays_alone_on_stdout(import_lines, run_rouse):
    finished = import_lines([line(tttft_ns=1)])
    json.loads(finished.stdout)
    assert "did you mean ttft_ns" in finished.stderr
    assert run_rouse("report", "--json", "--quiet").stderr == ""


def test_a_reader_sees_whole_runs_while_another_writes(rouse, environment, import_lines,
                                                       run_rouse, tmp_path):
    import_lines([line()])
    path = tmp_path / "big.jsonl"
    path.write_text("\n".join(line(ttft_ns=v + 1) for v in range(20_000)))
    with subprocess.Popen([str(rouse), "import", str(path), "--quiet"], env=environment,
                          stdout=subprocess.DEVNULL) as writer:
        deadline = time.monotonic() + 50
        while writer.poll() is None and time.monotonic() < deadline:
            runs = run_rouse("list", "--json").json()["runs"]
            assert [run["attempts"] for run in runs] in ([1], [1, 20_000])
        assert writer.wait(20) == 0
