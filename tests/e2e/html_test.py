"""docs/report_page.md: the report page in a real browser, on real reports. What is drawn is held
against the JSON that the same binary prints; a hostile name, no attempt, one attempt, failures only
and ten thousand attempts are pages too.

Needs Node with web/'s packages (ROUSE_NODE, ROUSE_NODE_MODULES) and Debian's Chromium; ./dev test
gives them, outside of it web/node_modules is used when it is there."""
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOK = ROOT / "tests" / "e2e" / "page" / "look.mjs"
MODULES = Path(os.environ.get("ROUSE_NODE_MODULES") or ROOT / "web" / "node_modules")
NODE = os.environ.get("ROUSE_NODE") or shutil.which("node")
CHROMIUM = os.environ.get("ROUSE_CHROMIUM") or shutil.which("chromium")
REVERSED = "\u202e"
HOSTILE = (REVERSED + "\x1b[31m"
           "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\"'&`${alert(3)}")
SELF_CONTAINED_BYTES = 1_500_000
SHEET_PX = 700  # between the margins of A4 or Letter

needs_browser = pytest.mark.skipif(
    not (NODE and CHROMIUM and MODULES.is_dir()),
    reason="no Node, Chromium or web/node_modules; ./dev test has them")


def built_with_page(run_rouse) -> None:
    """Skips where the build has no page on purpose (-DROUSE_WEB=OFF)."""
    answer = run_rouse("report", "--html", "/dev/null")
    if "without the report page" in answer.stderr:
        pytest.skip("this rouse was built without the report page")


@pytest.fixture(autouse=True)
def page_is_there(run_rouse):
    built_with_page(run_rouse)


@pytest.fixture
def look(tmp_path):
    """look(file, shots=False, look_for="#1") -> what a reader finds on the page."""

    def opened(file: Path, shots: bool = False, look_for: str = "#1") -> dict:
        answer = subprocess.run(
            [NODE, LOOK, file, tmp_path / "looked", tmp_path / "browser", "1" if shots else "0"],
            capture_output=True, text=True, timeout=110, check=False,
            env={**os.environ, "ROUSE_NODE_MODULES": str(MODULES), "ROUSE_CHROMIUM": CHROMIUM,
                 "LOOK_FOR": look_for, "HOME": str(tmp_path)})
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    return opened


def assert_sound(found: dict) -> None:
    """What holds for every page, whatever it shows."""
    assert found["told"] == [], "the page complained or asked a network"
    assert found["overflow"] <= 0, "wider than the window"
    assert found["unnamed"] == 0, "a picture without a text alternative"
    assert all(len(places) == 1 for places in found["tracks"]), "rows that do not share an axis"
    assert found["empty"] == 0 and found["images"] == 0
    for theme, findings in found["axe"].items():
        serious = [each for each in findings if each["impact"] in ("serious", "critical")]
        assert serious == [], f"axe-core in the {theme} theme"


def assert_prints_well(sheet: dict) -> None:
    assert sheet["widths"] and max(sheet["widths"]) <= SHEET_PX
    assert (sheet["cuttable"], sheet["shown"], sheet["colours"]) == (0, 0, 0), \
        "a picture that a page may cut, a control, a colour that is left out"


def assert_themes(themes: dict) -> None:
    """The button's wish is above the system's, and paper is white either way."""
    light, dark = "rgb(29, 31, 36)", "rgb(232, 230, 225)"
    ink = {"light": f"rgb(251, 250, 247) on {light}", "dark": f"rgb(20, 22, 26) on {dark}"}
    for system in ("light", "dark"):
        assert themes[f"{system}, auto"] == ink[system]
        assert themes[f"{system}, light"] == ink["light"]
        assert themes[f"{system}, dark"] == ink["dark"]
        assert themes[f"{system}, printed"] == "rgb(255, 255, 255) on rgb(0, 0, 0)"


def import_lines(run_rouse, tmp_path, lines: list[dict], name="imported") -> int:
    file = tmp_path / f"{name}.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run_rouse("import", file, "--name", name, "--json").json()["run"]


def write_page(run_rouse, tmp_path, run: int) -> Path:
    file = tmp_path / f"run{run}.html"
    written = run_rouse("report", run, "--html", file)
    assert written.status == 0, written.stderr
    assert written.stdout == "" and str(file) in written.stderr
    return file


def data_of(file: Path) -> dict:
    text = file.read_text()
    return json.loads(re.search(r'id="rouse-data">(.*?)</script>', text, re.DOTALL).group(1))


def near(left: float, right: float, tolerance: float) -> bool:
    return abs(left - right) <= tolerance


# ---- a real run ----

STATES = ("state_before", "state_at_send", "state_after")
LANES = {"reads": "target_read_bytes", "major faults": "target_major_faults",
         "minor faults": "target_minor_faults", "I/O pressure": "psi_io_some_us",
         "memory pressure": "psi_memory_some_us", "CPU pressure": "psi_cpu_some_us"}


def assert_samples_are_drawn(found, shown) -> None:
    """Each interval of each lane holds what the total grew by, and the page cache its digits."""
    samples = shown["samples"]
    at = samples["at_ns"]
    assert at[0] <= 0 and at[-1] >= shown["marks_ns"]["end"], "around the whole request"
    assert found["sampled"].startswith(f"Sampled {len(at)} times.")
    low, high = 0, shown["ttft_ns"] * 1.04  # it opens with the time to the first token
    seen = [span for span in zip(at, at[1:]) if span[1] >= low and span[0] <= high]
    for lane, name in LANES.items():
        total = samples["totals"][name]
        grown = [(start, end, total[i + 1] - total[i])
                 for i, (start, end) in enumerate(zip(at, at[1:]))
                 if total[i + 1] > total[i] and (start, end) in seen]
        drawn = [(block["from"], block["to"], block["value"]) for block in found["lanes"]
                 if block["kind"] == "rate" and block["lane"] == lane]
        assert drawn == grown, lane
        if total[-1] == 0:
            assert lane in found["sampled"].split("Zero throughout:")[1]
    # The file has come in by the end, and no cell lies outside of its lane.
    cells = [block for block in found["lanes"] if block["kind"] == "resident"]
    assert cells and {block["value"] for block in cells} <= set(range(1, 10))
    assert max(block["height"] for block in cells) == 52 and shown["state_after"][
        "page_cache"]["value"] > 0.99
    heights = {}
    for block in cells:
        heights[block["from"]] = heights.get(block["from"], 0) + block["height"]
    strip = ""
    for (start, _), digits in zip(zip(at, at[1:]), samples["page_cache"]):
        strip = digits or strip
        if start in heights:
            resident = sum(digit != "0" for digit in strip) / len(strip)
            assert heights[start] == pytest.approx(52 * resident, abs=1.5)


@needs_browser
def test_a_real_run_is_drawn_as_it_was_measured(run_rouse, model, tmp_path, look):
    file = tmp_path / "quick.html"
    measured = run_rouse("measure", "--repeat", 3, "--seed", 7, "--html", file, "--json",
                         timeout=110)
    assert measured.status == 0, measured.stderr
    report = measured.json()
    page = data_of(file)
    assert file.stat().st_size - len(json.dumps(page)) < SELF_CONTAINED_BYTES
    found = look(file, shots=True)
    assert_sound(found)
    assert found["overflows"] == [] and found["late"] == []
    assert_prints_well(found["print"])
    assert_themes(found["themes"])
    conditions = {each["name"]: each for each in report["conditions"]}
    assert {bar["condition"] for bar in found["bars"]} == set(conditions)

    # Bars: the median attempt's stages, in proportion, and as long together as the medians are.
    lengths = {}
    for bar in found["bars"]:
        typical = conditions[bar["condition"]]["median_attempt"]["stages_ns"]
        median = conditions[bar["condition"]]["ttft_ns"]["median"]
        drawn = {segment["stage"]: segment for segment in bar["segments"]}
        assert {name for name, ns in typical.items() if ns} == set(drawn)
        assert sum(each["ns"] for each in bar["segments"]) == pytest.approx(median, abs=2)
        total = sum(each["width"] for each in bar["segments"])
        for name, segment in drawn.items():
            assert near(segment["width"] / total, typical[name] / median, 1 / total)
        lengths[bar["condition"]] = (total, median)
    longest = max(lengths.values())
    for total, median in lengths.values():
        assert near(total / longest[0], median / longest[1], 3 / longest[0])

    # The ladder: as many steps as contrasts, each as long as the shift of its contrast.
    contrasts = page["explanation"]["contrasts"]
    shifts = sorted(round(each["cost_ns"]) for each in contrasts if each["cost_ns"] is not None)
    assert len(found["costs"]) == min(6, len(shifts)), "the list below the sentence"
    falls = sorted(round(step["to"] - step["from"]) for step in found["steps"]
                   if step["from"] != 0)
    assert falls == shifts and len(found["grades"]) == len(shifts)

    # Every attempt that counts is a dot, and one curve stands for each condition.
    counted = [each for each in report["attempts"]
               if not each["prime"] and each["outcome"] != "state_not_reached"]
    assert sum(found["dots"]) == len(counted) and found["curves"] == len(conditions)

    # One attempt: its segments, in the place and order in which the server told them.
    shown = next(each for each in report["attempts"] if f"#{each['id']}" == "#" + str(
        page["report"]["conditions"][-1]["median_attempt"]["attempts"][-1]))
    others = ("client", "lane", "try", "rate", "rate-part", "resident")
    stages = [block for block in found["lanes"] if block["kind"] not in others]
    told = [(each["stage"], each["start_ns"], each["end_ns"]) for each in shown["segments"]]
    start = shown["stages_ns"]["process_start"]
    expected = ([("process_start", 0, start)] if start else []) + told
    assert [(each["kind"], each["from"], each["to"]) for each in stages] == expected
    assert all(a["x"] <= b["x"] for a, b in zip(stages, stages[1:]))
    assert_samples_are_drawn(found, shown)
    states = [shown[moment]["page_cache"] for moment in STATES if "page_cache" in shown[moment]]
    assert found["strips"] == [len(each["strip"]) for each in states]
    for each in states:  # the strip is the file: its parts are equal but for the last
        assert sum(each["strip"]) / len(each["strip"]) == pytest.approx(each["value"], abs=0.02)

    # Filter, downloads, keyboard, definitions.
    assert found["count"] == f"{len(report['attempts'])} attempts"
    assert found["filtered"].startswith("1 of ")
    assert [each["id"] for each in json.loads((tmp_path / "looked/saved.json").read_text())] == [1]
    rows = (tmp_path / "looked/saved.csv").read_text().splitlines()
    assert len(rows) == 2 and rows[0].startswith("id,condition,") and rows[1].startswith("1,")
    assert found["sorted"] == "ascending" and found["opened"] and found["zoomed"]
    summary = next(each["summary"] for each in page["catalogue"] if each["name"] == "ttft_ns")
    assert summary in found["definition"] and found["described"] == "definition"


@needs_browser
def test_two_runs_are_drawn_with_their_shift_and_verdict(run_rouse, tmp_path, look):
    def lines(offset):
        return [{"condition": name, "outcome": "ok", "ttft_ns": base + offset + 1000 * index,
                 "block": index, "position": index}
                for name, base in (("warm", 70_000_000), ("cold", 300_000_000))
                for index in range(12)]

    fast = import_lines(run_rouse, tmp_path, lines(-20_000_000), "fast")
    slow = import_lines(run_rouse, tmp_path, lines(0), "slow")
    file = tmp_path / "compared.html"
    compared = run_rouse("compare", fast, slow, "--expect", "decrease", "--margin", "10ms",
                         "--json", "--html", file)
    assert compared.status == 0, compared.stderr
    found = look(file)
    assert_sound(found)
    values = [each["shift"]["value_ns"] for each in compared.json()["comparisons"]]
    assert [each["value"] for each in found["shifts"]] == values == [-20_000_000] * 2
    assert found["verdicts"] == ["✓ adopt"] * 4  # beside the shift, and with its reason
    assert "Run 1 against run 2" in found["title"]
    same = tmp_path / "conditions.html"
    run_rouse("compare", f"{slow}:cold", f"{slow}:warm", "--html", same)
    assert "Conditions of run 2" in same.read_text()
    assert len(data_of(same)["sides"]) == 1


# ---- pages of odd runs ----

@needs_browser
def test_hostile_names_stay_text(run_rouse, tmp_path, look):
    told = {"samples": {"at_ns": [-1, 5, 9], "totals": {HOSTILE: [0, 1, 2]}, "page_cache": []},
            "null_reasons": {"samples.page_cache": HOSTILE},
            "state_after": {"page_cache": {"value": 0.5, "proof": HOSTILE, "strip": [1, 0]}}}
    lines = [{**told, "condition": HOSTILE, "outcome": "ok", "ttft_ns": 50_000_000, "block": 1,
              "position": 1, "counters": {HOSTILE: 3, "target_read_bytes": 5},
              "warnings": [{"code": HOSTILE, "message": HOSTILE}]},
             {**told, "condition": HOSTILE, "outcome": "http_error", "outcome_detail": HOSTILE,
              "block": 2, "position": 2, "marks_ns": {"end": 90_000_000}, HOSTILE: HOSTILE}]
    run = import_lines(run_rouse, tmp_path, lines, "hostile")
    with contextlib.closing(sqlite3.connect(tmp_path / "results.sqlite")) as store, store:
        store.execute("UPDATE runs SET name = ?, target = ?, model = ?, plan_toml = ?",
                      [HOSTILE] * 4)
        store.execute("INSERT INTO run_environment VALUES (?, ?, ?)", [run, HOSTILE, HOSTILE])
    file = write_page(run_rouse, tmp_path, run)
    found = look(file)
    assert_sound(found)  # a script that ran would have opened a dialog, which is told
    assert found["scripts"] == 2, "data and script of the page"
    # What turns text around, or can't be seen, is not let through: a number could be misread.
    seen = HOSTILE.replace(REVERSED, "\ufffd").replace("\x1b", "\ufffd")
    assert seen in found["title"]
    assert seen in found["headline"] and REVERSED not in found["headline"] + found["text"]
    assert data_of(file)["report"]["name"] == HOSTILE
    assert found["bars"][0]["condition"] == HOSTILE
    assert seen in found["sampled"] and found["strips"] == [2]


@needs_browser
def test_a_run_in_which_all_failed_says_so(run_rouse, tmp_path, look):
    lines = [{"condition": "cold", "outcome": "timeout", "block": index, "position": index,
              "marks_ns": {"send_start": 0, "end": 600_000_000_000}} for index in range(8)]
    found = look(write_page(run_rouse, tmp_path, import_lines(run_rouse, tmp_path, lines)))
    assert_sound(found)
    assert found["headline"] == "No first token came: all 8 attempts failed (8 timeout)."
    assert found["bars"][0]["value"] == "≥ 10 min" and "8 of 8" in found["bars"][0]["failed"]
    assert sum(found["dots"]) == 8, "failures are drawn where their waiting ended"


@needs_browser
def test_without_any_time_there_is_no_axis(run_rouse, tmp_path, look):
    lines = [{"condition": "cold", "outcome": "timeout", "block": index} for index in range(8)]
    found = look(write_page(run_rouse, tmp_path, import_lines(run_rouse, tmp_path, lines)))
    assert_sound(found)
    assert found["text"].count("No attempt has a time that could be drawn.") == 3
    assert "1 ns" not in found["text"] and "No time of this attempt was recorded." in found["text"]


@needs_browser
def test_one_attempt_is_a_page(run_rouse, tmp_path, look):
    lines = [{"condition": "warm", "outcome": "ok", "ttft_ns": 70_000_000}]
    found = look(write_page(run_rouse, tmp_path, import_lines(run_rouse, tmp_path, lines)))
    assert_sound(found)
    assert "70.0 ms" in found["headline"] and "median of 1" in found["headline"]
    assert found["count"] == "1 attempt" and sum(found["dots"]) == 1
    assert "were not recorded for this attempt" in found["sampled"]


@needs_browser
def test_no_attempt_is_a_page_too(run_rouse, tmp_path, look):
    run = import_lines(run_rouse, tmp_path,
                       [{"condition": "warm", "outcome": "ok", "ttft_ns": 70_000_000}])
    with contextlib.closing(sqlite3.connect(tmp_path / "results.sqlite")) as store, store:
        store.execute("PRAGMA foreign_keys = ON")
        store.execute("DELETE FROM attempts")
    found = look(write_page(run_rouse, tmp_path, run))
    assert_sound(found)
    assert "Nothing was measured yet" in found["headline"]
    assert found["sections"] == ["Environment", "Plan"]


@needs_browser
@pytest.mark.parametrize("every", [500, 5])  # few failures, and as many as successes elsewhere
def test_ten_thousand_attempts_are_marks_on_a_canvas_and_rows_in_sight(run_rouse, tmp_path, look,
                                                                       every):
    lines = [{"condition": f"c{index % 5}", "outcome": "timeout" if index % every == 2 else "ok",
              "ttft_ns": 10_000_000 * (1 + index % 5) + 997 * index % 3_000_000,
              "block": index // 5, "position": index, "marks_ns": {"end": 90_000_000},
              "stages_ns": {"prefill": 9_000_000}, "counters": {"target_read_bytes": index}}
             for index in range(10_000)]
    found = look(write_page(run_rouse, tmp_path, import_lines(run_rouse, tmp_path, lines)),
                 look_for="timeout c2")
    assert_sound(found)
    failed = [line for line in lines if line["outcome"] == "timeout"]
    assert sum(found["canvasDots"]) == len(lines) - len(failed)
    assert sum(found["canvasCrosses"]) == (len(failed) if len(failed) >= 1200 else 0)
    assert found["count"] == "10,000 attempts" and 10 < found["rows"] < 80
    assert found["filtered"] == f"{len(failed):,} of 10,000 attempts"
    assert len(json.loads((tmp_path / "looked/saved.json").read_text())) == len(failed)


# ---- the command ----

def test_a_page_takes_no_other_output_and_names_what_it_cannot_write(run_rouse, tmp_path):
    run = import_lines(run_rouse, tmp_path,
                       [{"condition": "warm", "outcome": "ok", "ttft_ns": 70_000_000}])
    both = run_rouse("report", run, "--html", tmp_path / "x.html", "--csv")
    assert both.status == 2 and "--html" in both.stderr and "--csv" in both.stderr
    missing = run_rouse("report", run, "--html", tmp_path / "no" / "x.html")
    assert missing.status == 3 and "no/x.html" in missing.stderr
    kept = tmp_path / "kept.html"
    kept.write_text("old")
    kept.chmod(0o644)
    assert run_rouse("report", 99, "--html", kept).status != 0 and kept.read_text() == "old"
    assert not list(tmp_path.glob("*.part*"))


def test_the_file_names_no_address_and_allows_no_network(run_rouse, tmp_path):
    run = import_lines(run_rouse, tmp_path,
                       [{"condition": "warm", "outcome": "ok", "ttft_ns": 70_000_000}])
    text = write_page(run_rouse, tmp_path, run).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text).group(1)
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    assert set(re.findall(r"https?://[\w.-]+", text)) <= {"http://www.w3.org"}
