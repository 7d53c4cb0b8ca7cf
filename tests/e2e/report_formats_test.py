"""The forms of a report for other programs, each read by the program or parser that it is for."""
import csv
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
QUICK = ROOT / "docs" / "examples" / "quick.jsonl"
HOSTILE = "a|b\"\\ <script>alert(1)</script> \x1b[31m\n=1+1,"
# golang.org/x/perf as of this commit; a name of the Go module proxy.
BENCHSTAT = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"


@pytest.fixture
def quick(run_rouse):
    assert run_rouse("import", QUICK, "--quiet").status == 0


@pytest.fixture
def hostile(run_rouse, tmp_path):
    lines = tmp_path / "hostile.jsonl"
    lines.write_text("".join(
        json.dumps({"condition": name, "outcome": "ok" if i else "timeout", "block": i,
                    "ttft_ns": 10**8 + i if i else None, "api": HOSTILE,
                    "counters": {HOSTILE: 1},
                    "samples": {"at_ns": [-5, 9], "page_cache": ["0", "9"],
                                "totals": {"target_minor_faults": [0, 3], HOSTILE: [0, 1]}},
                    "state_before": {HOSTILE: {"value": HOSTILE, "proof": HOSTILE}},
                    "lanes": [{"name": HOSTILE, "start_ns": 0, "end_ns": 9}]}) + "\n"
        for i in range(7) for name in (HOSTILE, "模型")))
    assert run_rouse("import", lines, "--quiet", "--name", HOSTILE).status == 0


def rows(text: str) -> list[dict]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("data", ["quick", "hostile"])
def test_csv_tables_are_tidy_and_agree_with_the_json(run_rouse, request, data):
    request.getfixturevalue(data)
    attempts = run_rouse("report", 1, "--json", "--attempts").json()["attempts"]
    by_id = {each["id"]: each for each in attempts}
    wide = rows(run_rouse("report", 1, "--csv", "attempts").stdout)
    assert rows(run_rouse("report", 1, "--csv").stdout) == wide
    assert rows(run_rouse("report", "--csv", 1).stdout) == wide
    assert [int(row["id"]) for row in wide] == list(by_id)

    stages = rows(run_rouse("report", 1, "--csv", "stages").stdout)
    assert len(stages) == 9 * len(attempts)
    for row in stages:
        value = by_id[int(row["id"])]["stages_ns"][row["stage"]]
        assert row["ns"] == ("" if value is None else str(value))
        assert row["condition"] == by_id[int(row["id"])]["condition"]

    counters = rows(run_rouse("report", 1, "--csv", "counters").stdout)
    assert len(counters) == sum(len(each["counters"]) for each in attempts)
    for row in counters:
        value = by_id[int(row["id"])]["counters"][row["counter"]]
        assert (float(row["value"]) if row["value"] else None) == value

    states = rows(run_rouse("report", 1, "--csv", "states").stdout)
    assert len(states) == sum(len(each["state_" + moment]) for each in attempts
                              for moment in ("before", "at_send", "after"))


def test_csv_of_an_unknown_table_is_a_mistake(run_rouse, quick):
    finished = run_rouse("report", 1, "--csv", "marks")
    assert finished.status == 2
    assert "attempts, stages, counters and states" in finished.stderr


@pytest.mark.parametrize("data", ["quick", "hostile"])
def test_trace_is_what_a_viewer_asks_for(run_rouse, request, tmp_path, data):
    """The Trace Event Format's own rules: known phases, times in us, rows named, spans nested."""
    request.getfixturevalue(data)
    path = tmp_path / "trace.json"
    assert run_rouse("report", 1, "--trace", path).status == 0
    events = json.loads(path.read_text())["traceEvents"]
    required = {"X": {"ts", "dur"}, "i": {"ts", "s"}, "M": {"args"}, "s": {"ts", "id"},
                "f": {"ts", "id", "bp"}, "C": {"ts", "args"}}
    named, spans, flows, tracks = set(), {}, {}, {}
    for event in events:
        assert {"pid", "tid", "name"} | required[event["ph"]] <= set(event)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["name"] == "thread_name":
            named.add((event["pid"], event["tid"]))
        if event["ph"] == "X":
            assert event["dur"] >= 0
            spans.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "C":
            value = event["args"]["value"]
            assert isinstance(value, (int, float)) and not isinstance(value, bool)
            assert 0 <= value <= 100.5 or not event["name"].endswith("%"), event
            tracks.setdefault((event["pid"], event["name"]), []).append(event["ts"])
        if event["ph"] in "sf":
            flows.setdefault(event["id"], []).append((event["ph"], event["ts"]))
    processes = [e for e in events if e["name"] == "process_name"]
    attempts = run_rouse("report", 1, "--json", "--attempts").json()["attempts"]
    assert len(processes) == len(attempts)
    assert set(spans) <= named
    for row in spans.values():
        row.sort()
        # To the last bit: viewers add in floating point, and an overlap of 1e-13 us is one to them.
        assert all(before[1] <= after[0] for before, after in zip(row, row[1:]))
    for ends in flows.values():
        assert [phase for phase, _ in ends] == ["s", "f"] and ends[0][1] <= ends[1][1]
    assert all(times == sorted(times) for times in tracks.values())
    sampled = {pid for pid, name in tracks if name == "target_minor_faults"}
    assert sampled == {each["id"] for each in attempts if each["samples"]}
    assert data == "quick" or len(sampled) == len(attempts)
    # The client's spans end at the first token: ns and us agree.
    if data == "quick":
        first = next(a for a in attempts if a["marks_ns"]["first_token"])
        ends = [round(end * 1000) for _, end in spans[(first["id"], 1)]]
        assert first["marks_ns"]["first_token"] in ends


@pytest.fixture(scope="session")
def benchstat(tmp_path_factory) -> str:
    path = os.environ.get("ROUSE_BENCHSTAT") or shutil.which("benchstat")
    if path:
        return path
    if not shutil.which("go"):
        pytest.skip("neither benchstat nor go is here")
    where = tmp_path_factory.mktemp("go")
    made = subprocess.run(["go", "install", BENCHSTAT], capture_output=True, text=True, timeout=300,
                          check=False, env={**os.environ, "GOBIN": str(where)})
    if made.returncode != 0:
        pytest.skip("benchstat could not be installed: " + made.stderr[-300:])
    return str(where / "benchstat")


def test_benchstat_reads_it_and_finds_the_same_median(run_rouse, quick, benchstat, tmp_path):
    text = run_rouse("report", 1, "--benchstat").stdout
    (tmp_path / "new.txt").write_text(text)
    (tmp_path / "old.txt").write_text(text.replace(" 1 ", " 1 1"))  # a tenfold slower past
    answer = subprocess.run(
        [benchstat, "-format", "csv", "-filter", ".unit:ns/op", "old.txt", "new.txt"], check=True,
        cwd=tmp_path, capture_output=True, text=True)
    report = run_rouse("report", 1, "--json").json()
    for condition in report["conditions"]:
        word = condition["name"].replace(" ", "_")
        line = next(each for each in csv.reader(answer.stdout.splitlines())
                    if each and each[0].endswith("condition=" + word))
        median = condition["ttft_ns"]["median"] / 1e9
        numbers = [float(cell) for cell in line[1:] if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", cell)]
        assert any(abs(number - median) <= 0.01 * median for number in numbers), line
    assert "sec/op" in answer.stdout


def test_benchstat_reads_hostile_names(run_rouse, hostile, benchstat, tmp_path):
    (tmp_path / "new.txt").write_text(run_rouse("report", 1, "--benchstat").stdout)
    answer = subprocess.run([benchstat, "new.txt"], cwd=tmp_path, capture_output=True, text=True,
                            check=True)
    assert "模型" in answer.stdout and "\x1b" not in answer.stdout


@pytest.mark.parametrize("data", ["quick", "hostile"])
def test_prometheus_reads_it(run_rouse, request, tmp_path, data):
    request.getfixturevalue(data)
    path = tmp_path / "rouse.prom"
    path.write_text("old\n")
    assert run_rouse("report", 1, "--prometheus", path).status == 0
    families = {each.name: each for each in text_string_to_metric_families(path.read_text())}
    assert list(tmp_path.glob("rouse.prom.*")) == []
    report = run_rouse("report", 1, "--json").json()
    medians = {sample.labels["condition"]: sample.value
               for sample in families["rouse_ttft_median_seconds"].samples}
    outcomes = {(s.labels["condition"].replace("\x1b", "?"), s.labels["outcome"]): s.value
                for s in families["rouse_attempts"].samples}
    for condition in report["conditions"]:
        name = condition["name"].replace("\x1b", "?")
        assert abs(medians[name] - condition["ttft_ns"]["median"] / 1e9) < 1e-9
        assert {o: n for (c, o), n in outcomes.items() if c == name} == condition["outcomes"]
    assert families["rouse_run_info"].samples[0].labels["name"] == \
        report["name"].replace("\x1b", "?")


def test_a_file_that_cannot_be_written_stays_as_it_was(run_rouse, quick, tmp_path):
    finished = run_rouse("report", 1, "--prometheus", tmp_path / "none" / "rouse.prom")
    assert finished.status == 3
    assert "none" in finished.stderr


def test_a_link_stays_and_the_file_that_it_names_is_replaced(run_rouse, quick, tmp_path):
    (tmp_path / "runs").mkdir()
    old = tmp_path / "runs" / "1.json"
    old.write_text("old")
    chain = [tmp_path / "latest.json", tmp_path / "newest.json", tmp_path / "absent.json"]
    for link, target in zip(chain, ("runs/1.json", "latest.json", "runs/2.json")):
        link.symlink_to(target)
    for link in chain[1:]:
        assert run_rouse("report", 1, "--trace", link).status == 0
    assert all(link.is_symlink() for link in chain)
    assert json.loads(old.read_text()) == json.loads((tmp_path / "runs" / "2.json").read_text())
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == ["1.json", "2.json"]


def test_an_open_descriptor_is_written_to_and_its_link_stays(rouse, environment, run_rouse, quick,
                                                             tmp_path):
    link = tmp_path / "stdout"  # as /dev/stdout is one
    link.symlink_to("/proc/self/fd/1")
    out = tmp_path / "out.txt"
    with open(out, "w") as stream:
        stream.write("before\n")
        stream.flush()
        for arguments in (["report", "1", "--trace"], ["compare", "1:warm", "1:page cache cold",
                                                       "--html"]):
            subprocess.run([rouse, *arguments, link], check=True, env=environment, stdout=stream)
        stream.write("after\n")
    assert link.is_symlink() and os.readlink(link) == "/proc/self/fd/1"
    text = out.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    trace, page = text.index('"traceEvents"'), text.index("<!doctype html")
    assert trace < text.index("treatment") < page
    assert list(tmp_path.glob("*.part*")) == []


def cells(line: str) -> int:
    return line.replace("\\|", "").count("|")


@pytest.mark.parametrize("data", ["quick", "hostile"])
def test_markdown_tables_stand_whatever_the_names(run_rouse, request, data):
    request.getfixturevalue(data)
    text = run_rouse("report", 1, "--markdown").stdout
    assert "<" not in text and "\x1b" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) >= 4
    assert len({cells(line) for line in table}) == 1


def test_markdown_of_a_comparison(run_rouse, hostile):
    finished = run_rouse("compare", "1:模型", "1:" + HOSTILE, "--markdown")
    assert finished.status == 0
    table = [line for line in finished.stdout.splitlines() if line.startswith("|")]
    assert len(table) == 3 and len({cells(line) for line in table}) == 1


def test_forms_exclude_each_other(run_rouse, quick, tmp_path):
    forms = [["--csv"], ["--json"], ["--benchstat"], ["--markdown"],
             ["--trace", tmp_path / "t"], ["--prometheus", tmp_path / "p"]]
    for i, one in enumerate(forms):
        for other in forms[:i]:
            assert run_rouse("report", 1, *one, *other).status == 2, (one, other)
    assert not (tmp_path / "t").exists() and not (tmp_path / "p").exists()


def test_verdicts_over_undeclared_work_are_refused(run_rouse, quick, database):
    assert run_rouse("import", QUICK, "--quiet").status == 0
    with sqlite3.connect(database) as db:
        db.execute("UPDATE runs SET model = 'a.gguf' WHERE id = 1")
        db.execute("UPDATE runs SET model = 'b.gguf' WHERE id = 2")
        db.execute("INSERT INTO run_environment VALUES (1, 'kernel', '6.1'), (2, 'kernel', '6.6')")
    judged = ("--expect", "equal", "--margin", "10%")
    refused = run_rouse("compare", "1:warm", "2:warm", *judged)
    assert refused.status == 2
    assert "model differs: a.gguf against b.gguf" in refused.stderr
    assert "--differs model" in refused.stderr
    assert run_rouse("compare", "1", "2", *judged).status == 2
    shown = run_rouse("compare", "1:warm", "2:warm")
    assert shown.status == 0
    assert "model differs" in shown.stdout and "kernel differs: 6.1 against 6.6" in shown.stdout
    declared = run_rouse("compare", "1:warm", "2:warm", *judged, "--differs", "model")
    assert declared.status in (0, 4), declared.stderr
    assert "model differs" not in declared.stdout and "kernel differs" in declared.stdout
