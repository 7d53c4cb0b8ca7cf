"""What a person does to a run by mistake or by bad luck: two at once, a killed one that is watched,
a place that cannot be written, a number that is none."""
import os
import select
import signal
import subprocess
import time

import pytest

SHORT = ("--repeat", "1", "--only", "warm")


@pytest.fixture
def long_run(rouse, environment):
    """A run that is in its attempts."""
    process = subprocess.Popen(
        [str(rouse), "measure", "--repeat", "200", "--only", "warm", "--only", "prefix hit"],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("[1/"):
            break
    yield process
    process.kill()
    process.communicate()


def test_a_run_beside_another_is_told_so_and_keeps_it(long_run, run_rouse):
    answer = run_rouse("measure", *SHORT)
    assert answer.status == 0, answer.stderr
    words = f"run 1 (process {long_run.pid}) is being measured at the same time"
    assert f"Warning: {words}" in answer.stderr
    assert words in run_rouse("report", 2, "--json").json()["environment"]["measured_beside"]


def test_whoever_looks_on_is_told_that_the_tool_was_killed(long_run, rouse, environment,
                                                           run_rouse):
    with subprocess.Popen([str(rouse), "list", "--follow"], env=environment, text=True,
                          stdout=subprocess.PIPE) as follower:
        try:
            assert follower.stdout.readline().lstrip().startswith("1 ")
            long_run.send_signal(signal.SIGKILL)  # and not waited for: it stays as a zombie
            deadline = time.monotonic() + 20
            told = ""
            while "is gone: rouse measure --resume 1" not in told:
                left = deadline - time.monotonic()
                assert left > 0 and select.select([follower.stdout], [], [], left)[0], told
                told += os.read(follower.stdout.fileno(), 4096).decode()
        finally:
            follower.send_signal(signal.SIGINT)
    assert "is gone: rouse measure --resume 1 goes on" in run_rouse("list").stdout


@pytest.mark.parametrize("flag, place", [("--html", "no/such/page.html"), ("--html", "."),
                                         ("--out", "file/inside")])
def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(
        flag, place, run_rouse, tmp_path, database):
    (tmp_path / "file").write_text("")
    answer = run_rouse("measure", *SHORT, flag, tmp_path / place)
    assert answer.status in (2, 3)
    assert str(tmp_path / place) in answer.stderr
    assert ".part" not in answer.stderr
    assert not database.exists()


@pytest.mark.parametrize("arguments, words", [
    (("--repeat", "1.5"), '--repeat does not take "1.5"'),
    (("--seed", "99999999999999999999"), "must be a whole number from 0 to 9223372036854775807"),
    (("--seed", "-1"), "must be a whole number from 0"),
    (("--spread", "10%"), "--spread goes with --dry-run"),
    (("--target", "cmd:server --model {model}"), "has no {port}"),
    (("--preset", "idle", "--idle", "1s,1s"), "given twice"),
    (("--preset", "idle", "--require-ttft", "0s"), "must be above 0"),
])
def test_what_cannot_be_meant_is_refused(arguments, words, run_rouse, database):
    answer = run_rouse("measure", *arguments)
    assert answer.status == 2, answer.stderr
    assert words in answer.stderr
    assert not database.exists()
