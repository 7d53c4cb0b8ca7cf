"""rouse explain: an attempt, a run and a server, as text and as JSON."""
import json
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "quick.jsonl"


@pytest.fixture
def example_run(run_rouse):
    return run_rouse("import", EXAMPLE, "--json").json()["run"]


def number_of(condition):
    attempts = map(json.loads, EXAMPLE.read_text().splitlines())
    return next(each["id"] for each in attempts if each["condition"] == condition)


def test_an_attempt_against_a_condition(run_rouse, example_run):
    number = number_of("page cache cold")
    finished = run_rouse("explain", f"{example_run}#{number}", "--against", "warm", "--json")
    assert finished.status == 0, finished.stderr
    found = finished.json()
    assert found["schema"] == "rouse.explanation/1"
    assert found["of"] == "attempt"
    assert found["reference"]["condition"] == "warm"
    assert found["causes"][0]["cause"] in ("process_new", "page_cache_cold")
    claimed = sum(cause["claimed_ns"] for cause in found["causes"])
    assert claimed + found["unattributed_ns"] == pytest.approx(found["excess_ns"], abs=10)
    assert found["proved_by"] is None, "no contrast of an import is one"
    cold = {layer["layer"] for layer in found["layers"] if layer["cold"]}
    assert {"page_cache", "process"} <= cold


def test_text_fits_80_columns(run_rouse, example_run):
    for subject in (f"{example_run}#{number_of('warm')}", str(example_run)):
        finished = run_rouse("explain", subject)
        assert finished.status == 0, finished.stderr
        lines = [line for line in finished.stdout.splitlines() if "rouse measure" not in line]
        assert max(map(len, lines)) <= 80
        assert "rouse measure" in finished.stdout, "it ends with what to do next"


def test_a_server_is_explained_without_a_request(run_rouse, server):
    until = time.monotonic() + 60
    while not (before := run_rouse("state", server.url, "--json").json()["server"])["models"]:
        assert time.monotonic() < until, "it never tells of its model"
    finished = run_rouse("explain", server.url, "--json")
    assert finished.status == 0, finished.stderr
    found = finished.json()
    assert found["of"] == "server"
    assert {finding["layer"] for finding in found["findings"]} >= {"process", "weights"}
    after = run_rouse("state", server.url, "--json").json()["server"]
    assert before["queue"] == after["queue"]


@pytest.mark.parametrize("words, status", [
    (("explain", "1#999"), 2), (("explain", "1:warm"), 2), (("explain", "77"), 2),
    (("explain", "1", "--against", "warm"), 2), (("explain", "1#1", "--against", "none"), 2),
    (("explain", "http://127.0.0.1:1"), 3)])
def test_what_is_not_there_is_an_error(run_rouse, example_run, words, status):
    finished = run_rouse(*words)
    assert finished.status == status, finished.stdout
    assert finished.stderr.startswith("rouse: ")
