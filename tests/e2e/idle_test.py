"""The idle preset, scaled down to seconds: layers named after the idle time, the three words, runs
that are cut in the midst of an idle time and go on, and looking on from a second process."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

import pytest

WORDS = {"warm", "bounded cold start", "not held"}
IDLE = ["measure", "--preset", "idle", "--seed", "7"]


def measured(report: dict) -> list[dict]:
    return [each for each in report["attempts"] if each.get("position") is not None]


def wait_until(condition, timeout_s: float = 40.0, what: str = "") -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.05)


def progress_of(database) -> tuple:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as connection:
            row = connection.execute(
                "SELECT condition, doing, position, until_wall_ns FROM run_progress").fetchone()
            return row or ("", "", None, None)
    except sqlite3.OperationalError:
        return ("", "", None, None)


@pytest.fixture
def start_measure(rouse, environment):
    """Starts `rouse measure` in the background; ended after the test."""
    started = []

    def start(*arguments):
        process = subprocess.Popen([str(rouse), *map(str, arguments)], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_every_layer_is_read_after_the_idle_time_and_before_the_request(run_rouse):
    answer = run_rouse(*IDLE, "--idle", "0s,3s", "--repeat", 2, "--require-ttft", "100s", "--json",
                       timeout=110)
    assert answer.status == 0, answer.stderr
    report = answer.json()
    assert [each["name"] for each in report["conditions"]] == ["idle 0 s", "idle 3 s"]
    for attempt in measured(report):
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
        layers = attempt["state_at_send"]
        assert {"model", "page_cache", "process", "resident_memory"} <= set(layers)
        assert layers["model"]["value"] == "loaded"
        assert "/proc/PID/maps" in layers["model"]["proof"]
        assert layers["resident_memory"]["value"] >= 0.95
        counters = attempt["counters"]
        assert counters["idle_target_wakeups"] is not None
        assert counters["idle_others_cpu_ns"] is not None
        if attempt["condition"] == "idle 3 s":
            # A server that waits for requests has next to nothing to do.
            assert counters["idle_target_cpu_ns"] < 300_000_000
    claim = report["requirement"]
    assert claim["word"] in ("warm", "bounded cold start"), claim
    assert all(each["held"] for each in claim["conditions"]), claim
    if claim["word"] != "warm":  # only when a guard says so: this machine has other work
        assert "squeezed" in claim["reason"], claim
    assert {each["name"] for each in claim["guards"]} == {
        "swap-in", "memory pressure (full)", "co-tenant slowdown"}


def test_a_time_that_cannot_hold_ends_as_a_bounded_cold_start_with_its_bound(run_rouse):
    answer = run_rouse(*IDLE, "--idle", "0s,1s", "--repeat", 2, "--require-ttft", "1us",
                       timeout=110)
    assert answer.status == 0, answer.stderr
    assert "bounded cold start: the worst first token came after" in answer.stdout
    assert "at least 22.4 % of first answers" in re.sub(r"\s+", " ", answer.stdout)
    assert re.search(r"idle 1 s: worst .* of 2; model loaded", re.sub(r"\s+", " ", answer.stdout))


def test_a_server_that_never_answers_is_not_held(run_rouse, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text("""
[experiment]
name = "dead"
repeat = 2
require_ttft = "1s"
timeout = "500ms"
[target]
kind = "url"
url = "http://127.0.0.1:9"
[[condition]]
name = "idle 0 s"
idle = "0s"
""")
    answer = run_rouse("measure", plan, "--json", timeout=60)
    assert answer.json()["requirement"]["word"] == "not held"


def test_require_ttft_needs_an_idle_time(run_rouse):
    answer = run_rouse("measure", "--require-ttft", "1s")
    assert answer.status == 2
    assert "no condition has one" in answer.stderr
    assert run_rouse("measure", "--preset", "idle", "--require-ttft", "fast").status == 2


def test_the_ladder_takes_three_nights_and_says_so(run_rouse):
    answer = run_rouse("measure", "--preset", "idle", "--dry-run", "--json")
    schedule = answer.json()
    assert len(schedule["attempts"]) == 15
    blocks = {}
    for attempt in schedule["attempts"]:
        blocks[attempt["block"]] = blocks.get(attempt["block"], 0) + attempt["idle_ns"]
    assert set(blocks.values()) == {(9 * 60 + 11) * 60 * 10**9}
    assert 'session = "10h"' in run_rouse("measure", "--preset", "idle", "--print-plan").stdout


def test_a_kill_in_an_idle_time_is_repeated_and_marked_by_the_same_command(
        run_rouse, start_measure, database):
    command = [*IDLE, "--idle", "0s,4s", "--repeat", 2, "--resume"]
    first = start_measure(*command, "--json")
    wait_until(lambda: progress_of(database)[1].startswith("idle for"), what="the idle time")
    position = progress_of(database)[2]
    while position is None:  # the prime idles too
        time.sleep(0.05)
        position = progress_of(database)[2]
    wait_until(lambda: progress_of(database)[1].startswith("idle for"), what="the idle time")
    position = progress_of(database)[2]
    first.kill()
    first.communicate()
    second = run_rouse(*command, "--json", timeout=110)
    assert second.status == 0, second.stderr
    report = second.json()
    assert report["status"] == "complete"
    tries = [each for each in measured(report) if each["position"] == position]
    assert [each["outcome"] for each in tries] == ["interrupted", "ok"]
    assert "ended without storing" in tries[0]["outcome_detail"]
    assert "repeated" in {each["code"] for each in tries[1]["warnings"]}
    finished = [each["position"] for each in measured(report) if each["outcome"] == "ok"]
    assert sorted(finished) == [0, 1, 2, 3]
    third = run_rouse(*command)
    assert third.status == 2 and "is complete" in third.stderr


def test_ctrl_c_says_the_command_that_goes_on(start_measure, run_rouse, database):
    process = start_measure(*IDLE, "--idle", "0s,30s", "--repeat", 1)
    wait_until(lambda: progress_of(database)[1].startswith("idle for 30"), what="the idle time")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    command = re.search(r"Go on with: rouse (.*)", errors).group(1)
    assert command == "measure --preset idle --seed 7 --idle 0s,30s --repeat 1 --resume"
    assert run_rouse("list", "--json").json()["runs"][0]["status"] == "interrupted"


def test_a_session_that_is_used_up_pauses_the_run(run_rouse, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text("""
[experiment]
name = "sessions"
repeat = 2
seed = 3
session = "2s"
[[condition]]
name = "idle 1 s"
idle = "1s"
""")
    first = run_rouse("measure", plan, "--resume", timeout=60)
    assert first.status == 130, first.stderr
    assert "paused: the next block takes" in first.stderr
    assert f"Go on with: rouse measure {plan} --resume" in first.stderr
    assert run_rouse("list", "--json").json()["runs"][0]["status"] == "paused"
    second = run_rouse("measure", plan, "--resume", timeout=60)
    assert second.status == 0, second.stderr


def test_list_follow_tells_what_a_run_waits_for_from_the_database_alone(
        start_measure, rouse, environment, database):
    process = start_measure(*IDLE, "--idle", "0s,50s", "--repeat", 1)
    wait_until(lambda: progress_of(database)[1].startswith("idle for 50"), what="the idle time")
    follow = subprocess.Popen([str(rouse), "list", "--follow", "--json"], env=environment,
                              stdout=subprocess.PIPE, text=True)
    try:
        progress = json.loads(follow.stdout.readline())["progress"]
        assert progress["alive"] and progress["doing"].startswith("idle for 50")
        assert progress["until_wall_ns"] - time.time_ns() < 51e9
        process.kill()
        process.communicate()
        follow.kill()
        follow.communicate()
        follow = subprocess.Popen([str(rouse), "list", "--follow"], env=environment,
                                  stdout=subprocess.PIPE, text=True)
        text = follow.stdout.readline()
        while "is gone: rouse measure --resume 1 goes on" not in text:
            line = follow.stdout.readline()
            assert line, text
            text += line
    finally:
        follow.kill()
        follow.communicate()


def test_two_commands_do_not_measure_one_run(start_measure, run_rouse, database):
    start_measure(*IDLE, "--idle", "0s,50s", "--repeat", 1)
    wait_until(lambda: progress_of(database)[1].startswith("idle for 50"), what="the idle time")
    second = run_rouse(*IDLE, "--idle", "0s,50s", "--repeat", 1, "--resume", timeout=60)
    assert second.status == 3
    assert "is being measured right now" in second.stderr


def test_out_writes_the_run_as_files(run_rouse, tmp_path):
    folder = tmp_path / "a" / "b"
    answer = run_rouse(*IDLE, "--idle", "0s", "--repeat", 1, "--out", folder, timeout=60)
    assert answer.status == 0, answer.stderr
    assert sorted(each.name for each in folder.iterdir()) == [
        "attempts.csv", "plan.toml", "report.json", "trace.json"]
    assert json.loads((folder / "report.json").read_text())["run"] == 1


def test_inhibit_sleep_says_where_it_cannot(run_rouse):
    if os.path.exists("/run/systemd/system"):
        pytest.skip("systemd runs here")
    answer = run_rouse(*IDLE, "--idle", "0s", "--inhibit-sleep")
    assert answer.status == 3
    assert "--inhibit-sleep needs systemd" in answer.stderr
