"""rouse compare: the verdict table row by row, and its numbers against a second implementation."""
import itertools
import json
import math
import random

import pytest

MS = 1_000_000


def attempts(condition, times_ms, first_block=0, **fields):
    """One attempt per block; None is a timeout after 60 s."""
    lines = []
    for block, time_ms in enumerate(times_ms, first_block):
        attempt = {"condition": condition, "block": block, "outcome": "ok", **fields}
        if time_ms is None:
            attempt |= {"outcome": "timeout", "marks_ns": {"end": 60_000 * MS}}
        else:
            attempt["ttft_ns"] = round(time_ms * MS)
        lines.append(json.dumps(attempt))
    return lines


@pytest.fixture
def import_run(run_rouse, tmp_path):
    def run(*groups):
        path = tmp_path / "attempts.jsonl"
        path.write_text("\n".join(itertools.chain(*groups)) + "\n")
        return run_rouse("import", path, "--json").json()["run"]
    return run


@pytest.fixture
def compare(run_rouse, import_run):
    """Imports both sides as one run and compares them; gives status and JSON."""
    def run(treatment, control, *arguments):
        run_id = import_run(attempts("t", treatment), attempts("c", control))
        finished = run_rouse("compare", f"{run_id}:t", f"{run_id}:c", "--json", *arguments)
        return finished.status, finished.json()
    return run


# Shifts (treatment - control) in ms of six pairs, whose 95 % interval is their range.
CONTROL = [100, 100, 100, 100, 100, 100]


def shifted(*shifts):
    return [control + shift for control, shift in zip(CONTROL, shifts)]


@pytest.mark.parametrize("expect, shifts, verdict, status", [
    ("decrease", (-10, -12, -15, -20, -25, -30), "adopt", 0),
    ("decrease", (-9.9, -12, -15, -20, -25, -30), "undecided", 4),
    ("decrease", (-10, -5, -3, 0, 3, 5), "undecided", 4),
    ("decrease", (-9.9, -5, -3, 0, 3, 5), "reject", 1),
    ("increase", (10, 12, 15, 20, 25, 30), "adopt", 0),
    ("increase", (9.9, 12, 15, 20, 25, 30), "undecided", 4),
    ("increase", (9.9, 5, 3, 0, -3, -5), "reject", 1),
    ("equal", (-9, -4, -2, 0, 3, 9), "adopt", 0),
    ("equal", (5, 8, 11, 12, 13, 14), "undecided", 4),
    ("equal", (-40, -20, 0, 10, 20, 40), "undecided", 4),
    ("equal", (11, 12, 13, 14, 15, 16), "reject", 1),
    ("equal", (-11, -12, -13, -14, -15, -16), "reject", 1),
])
def test_every_row_of_the_verdict_table(compare, expect, shifts, verdict, status):
    got_status, result = compare(shifted(*shifts), CONTROL, "--expect", expect, "--margin", "10ms")
    assert (result["verdict"], got_status) == (verdict, status), result["reason"]
    assert result["schema"] == "rouse.comparison/1"
    assert result["expect"] == expect
    assert result["margin_ns"] == 10 * MS
    assert result["shift"]["paired"] is True
    assert result["shift"]["estimator"] == "hodges-lehmann"
    assert result["reason"] and result["would_change"]


def test_the_interval_of_six_pairs_is_their_range(compare):
    status, result = compare(shifted(1, 2, 3, 4, 5, 6), CONTROL)
    assert status == 0
    assert result["verdict"] is None
    assert result["shift"]["ci_ns"] == [1 * MS, 6 * MS]
    assert result["shift"]["value_ns"] == 3.5 * MS
    assert result["ratio"]["ci"] == [pytest.approx(1.01), pytest.approx(1.06)]
    assert result["treatment"]["median"] == 103.5 * MS
    assert result["control"]["n"] == 6


def test_five_pairs_are_too_few_and_six_for_equality_use_ninety_percent(compare):
    status, result = compare([90] * 5, [100] * 5, "--expect", "decrease", "--margin", "5ms")
    assert (status, result["verdict"]) == (4, "undecided")
    assert result["shift"]["ci_ns"] is None
    assert result["shift"]["null_reason"] == "5 pairs; a 95 % interval needs 6"
    status, result = compare([101] * 5, [100] * 5, "--expect", "equal", "--margin", "5ms")
    assert (status, result["verdict"]) == (0, "adopt")
    assert result["shift"]["confidence"] == pytest.approx(0.9)
    assert result["confidence"] == 0.95


def test_a_relative_margin_is_a_share_of_the_controls_statistic(compare):
    status, result = compare(shifted(*[-20] * 6), CONTROL, "--expect", "decrease",
                             "--margin", "10%")
    assert result["margin_ns"] == 10 * MS
    assert (status, result["verdict"]) == (0, "adopt")


def test_a_relative_margin_of_a_failed_control_cannot_be_known(compare):
    status, result = compare([100] * 6, [None] * 6, "--expect", "decrease", "--margin", "10%")
    assert (status, result["verdict"]) == (4, "undecided")
    assert result["margin_ns"] is None
    assert result["shift"]["ci_ns"] == [None, None]
    status, result = compare([100] * 6, [None] * 6, "--expect", "decrease", "--margin", "10ms")
    assert (status, result["verdict"]) == (0, "adopt")


def test_a_failed_side_of_a_pair_is_infinite_and_two_are_a_tie(compare):
    _, result = compare([105] * 5 + [None], CONTROL)
    assert result["shift"]["value_ns"] == 5 * MS
    assert result["shift"]["ci_ns"] == [5 * MS, None]
    _, result = compare([105] * 5 + [None], [100] * 5 + [None])
    assert result["shift"]["ci_ns"] == [0, 5 * MS]
    status, result = compare([105] * 5 + [None], CONTROL, "--expect", "decrease", "--margin",
                             "10ms")
    assert (status, result["verdict"]) == (1, "reject")
    status, result = compare([105] * 5 + [None], CONTROL, "--expect", "equal", "--margin", "10ms")
    assert (status, result["verdict"]) == (4, "undecided")


def test_blocks_without_a_partner_are_listed(import_run, run_rouse):
    run_id = import_run(attempts("t", [110] * 8, first_block=2), attempts("c", [100] * 8))
    result = run_rouse("compare", f"{run_id}:t", f"{run_id}:c", "--json").json()
    assert result["shift"]["n_treatment"] == 6
    assert result["unpaired_blocks"] == {"treatment": [8, 9], "control": [0, 1]}


def test_attempts_without_blocks_are_compared_unpaired(import_run, run_rouse):
    lines = [json.dumps({"condition": c, "outcome": "ok", "ttft_ns": v})
             for c, values in (("t", (5, 6, 7, 8)), ("c", (1, 2, 3, 4))) for v in values]
    run_id = import_run(lines)
    result = run_rouse("compare", f"{run_id}:t", f"{run_id}:c", "--json").json()
    assert result["shift"]["paired"] is False
    assert result["why_unpaired"] == "not every attempt has a block"
    assert result["shift"]["value_ns"] == 4
    assert result["shift"]["ci_ns"] == [1, 7]


def test_guards_are_judged_on_the_treatment(compare):
    fast_but_failing = [80] * 11 + [None]
    arguments = ("--expect", "decrease", "--margin", "10ms")
    status, result = compare(fast_but_failing, [100] * 12, *arguments)
    assert (status, result["verdict"]) == (0, "adopt")
    status, result = compare(fast_but_failing, [100] * 12, *arguments,
                             "--guard", "failure_rate<=0.05")
    assert (status, result["verdict"]) == (1, "reject")
    assert result["guards"][0]["held"] is False
    assert result["guards"][0]["value"] == pytest.approx(1 / 12)
    assert "failure_rate<=0.05" in result["reason"]
    status, result = compare(fast_but_failing, [100] * 12, *arguments,
                             "--guard", "cotenant_slowdown<=0.10")
    assert (status, result["verdict"]) == (4, "undecided")
    assert result["guards"][0]["held"] is None
    status, result = compare([80] * 12, [100] * 12, *arguments, "--guard", "failure_rate<=0.05",
                             "--guard", "max(ttft)<=81ms")
    assert (status, result["verdict"]) == (0, "adopt")


def test_a_guard_does_not_turn_a_reject(compare):
    status, result = compare([200] * 6, CONTROL, "--expect", "decrease", "--margin", "10ms",
                             "--guard", "failure_rate<=0.05")
    assert (status, result["verdict"]) == (1, "reject")


def test_two_runs_are_compared_condition_by_condition_and_unpaired(import_run, run_rouse):
    first = import_run(attempts("warm", [80] * 6), attempts("only t", [1] * 6))
    second = import_run(attempts("warm", [100] * 6), attempts("only c", [1] * 6))
    finished = run_rouse("compare", first, second, "--json", "--expect", "decrease",
                         "--margin", "10%")
    result = finished.json()
    assert finished.status == 0
    assert [c["name"] for c in result["comparisons"]] == ["warm"]
    assert result["comparisons"][0]["shift"]["paired"] is False
    assert (result["only_treatment"], result["only_control"]) == (["only t"], ["only c"])


def test_mistakes_in_the_command_are_exit_2(import_run, run_rouse):
    run_id = import_run(attempts("t", [1] * 6), attempts("c", [1] * 6))
    sides = (f"{run_id}:t", f"{run_id}:c")
    for arguments, words in [
            ((f"{run_id}:x", sides[1]), 'no condition "x"'),
            (("99:t", "99:c"), "no run 99"),
            (("t", "c"), "no run"),
            ((sides[0], sides[0]), "with itself"),
            ((run_id, run_id), "with itself"),
            ((run_id, sides[1]), "RUN:CONDITION"),
            ((*sides, "--expect", "decrease"), "--margin"),
            ((*sides, "--expect", "smaller", "--margin", "10%"), "smaller"),
            ((*sides, "--expect", "decrease", "--margin", "10"), "10"),
            ((*sides, "--expect", "decrease", "--margin", "0ms"), "above 0"),
            ((*sides, "--expect", "decrease", "--margin", "-5%"), "above 0"),
            ((*sides, "--expect", "decrease", "--margin", "nan%"), "above 0"),
            ((*sides, "--metric", "tfft"), "ttft"),
            ((*sides, "--statistic", "p42"), "p42"),
            ((*sides, "--confidence", "95"), "confidence"),
            ((*sides, "--guard", "failure_rate"), "NAME<=NUMBER"),
            ((*sides, "--guard", "failure_rat<=1"), "failure_rate"),
            ((*sides, "--margn", "10%"), "--margin")]:
        finished = run_rouse("compare", *arguments, "--json")
        assert finished.status == 2, (arguments, finished.stderr)
        assert words in finished.stderr, arguments
        assert finished.stdout == ""


def test_no_attempt_on_a_side_is_exit_3_and_never_a_verdict(import_run, run_rouse):
    run_id = import_run(attempts("t", [1] * 6),
                        [json.dumps({"condition": "c", "outcome": "state_not_reached"})])
    for sides in ((f"{run_id}:t", f"{run_id}:c"), (f"{run_id}:c", f"{run_id}:t")):
        finished = run_rouse("compare", *sides, "--json", "--expect", "equal", "--margin", "10%")
        assert finished.status == 3
        assert "state_not_reached" in finished.stderr
        assert finished.stdout == ""
    finished = run_rouse("compare", f"{run_id}:t", f"{run_id}:c", "--metric", "target_rss_bytes")
    assert finished.status == 3


def test_what_would_change_the_verdict_is_right(compare):
    times = shifted(-2, -14, -15, -20, -25, -30)
    _, result = compare(times, CONTROL, "--expect", "decrease", "--margin", "10ms")
    assert result["verdict"] == "undecided"
    assert "margin of 2 ms or less it would be an adopt" in result["would_change"].replace(
        "2.00 ms", "2 ms")
    assert "pairs would decide" in result["would_change"]
    assert compare(times, CONTROL, "--expect", "decrease", "--margin", "2ms")[0] == 0
    assert compare(times, CONTROL, "--expect", "decrease", "--margin", "30.1ms")[0] == 1
    assert compare(times, CONTROL, "--expect", "decrease", "--margin", "30ms")[0] == 4


def test_a_percentile_needs_its_n_and_a_mean_no_failures(compare):
    arguments = ("--expect", "decrease", "--margin", "10ms", "--statistic")
    status, result = compare([80] * 30, [100] * 30, *arguments, "p95")
    assert (status, result["shift"]["value_ns"]) == (4, None)
    assert "needs 59" in result["shift"]["null_reason"]
    status, result = compare([80] * 72, [100] * 72, *arguments, "p95")
    assert (status, result["verdict"]) == (0, "adopt")
    assert result["shift"]["seed"] == 1
    status, result = compare([80] * 9 + [None], [100] * 10, *arguments, "mean")
    assert (status, result["treatment"]["mean"]) == (4, None)
    status, result = compare([80, 81, 79, 80, 82, 78], CONTROL, *arguments, "mean")
    assert (status, result["verdict"]) == (0, "adopt")


def test_other_metrics_keep_their_unit(import_run, run_rouse):
    run_id = import_run(*(attempts(c, [1] * 6, counters={"target_read_bytes": v})
                          for c, v in (("t", 5_000_000), ("c", 1_000_000))))
    result = run_rouse("compare", f"{run_id}:t", f"{run_id}:c", "--metric", "target_read",
                       "--expect", "increase", "--margin", "1MB", "--json").json()
    assert result["metric"] == "target_read_bytes"
    assert result["shift"]["value_bytes"] == 4_000_000
    assert result["margin_bytes"] == 1_000_000
    assert result["verdict"] == "adopt"


def test_the_text_says_verdict_interval_and_what_would_change_it(import_run, run_rouse):
    run_id = import_run(attempts("t", shifted(-2, -14, -15, -20, -25, -30)),
                        attempts("c", CONTROL))
    finished = run_rouse("compare", f"{run_id}:t", f"{run_id}:c", "--expect", "decrease",
                         "--margin", "10%")
    assert finished.status == 4
    assert finished.stdout.startswith("UNDECIDED")
    assert "95 % interval" in finished.stdout and "6 pairs" in finished.stdout
    assert "would decide" in finished.stdout
    assert max(map(len, finished.stdout.splitlines())) <= 100


# ---- a second implementation ----

def walsh(differences):
    return sorted((a + b) / 2 for i, a in enumerate(differences) for b in differences[i:])


def signed_rank_interval(differences, confidence):
    """From all 2^n sign patterns."""
    n = len(differences)
    sums = [0] * (n * (n + 1) // 2 + 1)
    for signs in itertools.product((0, 1), repeat=n):
        sums[sum(rank for rank, sign in enumerate(signs, 1) if sign)] += 1
    tail, k = 0.0, 0
    while tail + sums[k] / 2 ** n <= (1 - confidence) / 2:
        tail += sums[k] / 2 ** n
        k += 1
    averages = walsh(differences)
    return (averages[k - 1], averages[-k]) if k else None


@pytest.mark.parametrize("n, confidence", [(6, 0.95), (8, 0.9), (11, 0.95), (13, 0.99)])
def test_paired_shifts_agree_with_enumeration(compare, n, confidence):
    draw = random.Random(n)
    control = [draw.lognormvariate(4, 1) for _ in range(n)]
    treatment = [draw.lognormvariate(4.2, 1) for _ in range(n)]
    _, result = compare(treatment, control, "--confidence", str(confidence))
    differences = [round(t * MS) - round(c * MS) for t, c in zip(treatment, control)]
    averages = walsh(differences)
    middle = (averages[(len(averages) - 1) // 2] + averages[len(averages) // 2]) / 2
    assert result["shift"]["value_ns"] == pytest.approx(middle, rel=1e-12)
    assert result["shift"]["ci_ns"] == pytest.approx(signed_rank_interval(differences, confidence))


@pytest.mark.parametrize("n, m", [(4, 4), (5, 10), (12, 9), (25, 30), (200, 150)])
def test_unpaired_shifts_agree_with_scipys_rank_sum_test(import_run, run_rouse, n, m):
    """An interval is right when the test accepts every shift inside it and none outside."""
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(n * m)
    t = [round(draw.lognormvariate(18, 0.5)) for _ in range(n)]
    c = [round(draw.lognormvariate(17.8, 0.5)) for _ in range(m)]
    run_id = import_run([json.dumps({"condition": name, "outcome": "ok", "ttft_ns": value})
                         for name, values in (("t", t), ("c", c)) for value in values])
    shift = run_rouse("compare", f"{run_id}:t", f"{run_id}:c", "--json").json()["shift"]
    method = "exact" if n * m <= 1000 else "asymptotic"
    low, high = shift["ci_ns"]

    def p_value(delta):
        return stats.mannwhitneyu([value - delta for value in t], c, method=method,
                                  use_continuity=True).pvalue

    step = 0.5  # between whole nanoseconds: no ties
    assert p_value(low - step) <= 0.05 < p_value(low + step)
    assert p_value(high + step) <= 0.05 < p_value(high - step)
    differences = sorted(a - b for a in t for b in c)
    middle = (differences[(n * m - 1) // 2] + differences[n * m // 2]) / 2
    assert shift["value_ns"] == middle


def test_the_paired_interval_agrees_with_scipys_signed_rank_test(compare):
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(4)
    n = 40
    control = [draw.lognormvariate(4, 1) for _ in range(n)]
    treatment = [value + draw.lognormvariate(2, 1) for value in control]
    _, result = compare(treatment, control)
    differences = [round(t * MS) - round(c * MS) for t, c in zip(treatment, control)]
    low, high = result["shift"]["ci_ns"]

    def p_value(delta):
        return stats.wilcoxon([value - delta for value in differences], method="exact").pvalue

    step = 0.25
    assert p_value(low - step) <= 0.05 < p_value(low + step)
    assert p_value(high + step) <= 0.05 < p_value(high - step)


def test_the_percentile_bootstrap_agrees_with_numpys(compare):
    numpy = pytest.importorskip("numpy")
    draw = random.Random(9)
    n = 120
    control = [draw.lognormvariate(4, 0.5) for _ in range(n)]
    treatment = [value * 1.2 + draw.random() for value in control]
    _, result = compare(treatment, control, "--statistic", "p90")
    rng = numpy.random.default_rng(1)
    t, c = numpy.array(treatment) * MS, numpy.array(control) * MS
    index = rng.integers(0, n, (20_000, n))
    rank = math.ceil(0.9 * n) - 1
    redrawn = numpy.sort(t[index], axis=1)[:, rank] - numpy.sort(c[index], axis=1)[:, rank]
    low, high = result["shift"]["ci_ns"]
    # A percentile takes few values, so an end is right when it is one of those around the level.
    slack = 0.005
    assert numpy.mean(redrawn < low - 1) <= 0.025 + slack
    assert numpy.mean(redrawn <= low + 1) >= 0.025 - slack
    assert numpy.mean(redrawn > high + 1) <= 0.025 + slack
    assert numpy.mean(redrawn >= high - 1) >= 0.025 - slack
