"""Every Python benchmark still works: its --smoke mode, of some seconds, ends well and prints what
it has measured. How large that is is judged by people, never here. And none leaves anything."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
BENCHMARKS = sorted(BENCH.glob("*.py"))
TIMEOUT_S = 100
# What must be told of what has been measured, as patterns of whole lines.
TOLD = {
    "cold_start": [r"\| new process, file cached \| \d+ \| .* \| \d+ \| \d+\.\d+ \|",
                   r"\| asleep, file cached \| \d+ \|.*", r"\| loaded, new prompt \| \d+ \|.*"],
    "explain": [r'\{"fault": "long_prompt", .*"named": "prompt_longer", .*',
                r"1 of 1 injected faults named first, 0 wrong ones called proved, 0 not injected"],
    "report_page": [r'\{"what": "written", "ms": .*', r'\{"what": "usable", "ms": .*',
                    r'\{"what": "filter", .*"text": "warm", "count": "10 of 50 attempts"\}'],
    "sampling": [r"  treatment  warm, sampled .* 1 ok", r"  control    warm, not sampled .* 1 ok",
                 r"CPU time of sampling: median \d+\.\d+ ms an attempt"],
    "side_effects": [r"\| reader on \| \d+\.\d \|.*", r"\| reader off \| \d+\.\d \|.*",
                     r"\| rouse \| copy \| \d+ MB \| \d+\.\d+ \|",
                     r"\| llama-best \| copy \| \d+ MB \| 1\.00 \|"],
    "tiers": [rf"\| {tier} \| {file} \| \d+ MB \| \d+ ms \|.*" for tier, file in (
        ("ready", "cached"), ("asleep", "evicted"), ("unloaded", "evicted"))],
    "warm_rates": [rf"\| SmolLM2-135M Q4_1 \| {layout} \| decode, 32 tokens \| [1-9].*"
                   for layout in ("as in the file", "repacked")],
    "wire_peers": [r"\| rouse \| 3 \| \d+\.\d+ ms \| \d+\.\d+ ms \|.*"],
}


@pytest.fixture
def start_bench(rouse, model, environment):
    """start_bench("tiers", "--smoke") -> its process, ended with its group after the test."""
    env = {**environment, "ROUSE_BINARY": str(rouse), "ROUSE_MODEL": str(model)}
    given = ("ROUSE_LLAMA_SERVER", "ROUSE_NAIVE", "ROUSE_NAIVE_MISSING", "ROUSE_NODE",
             "ROUSE_NODE_MODULES")
    env.update({name: os.environ[name] for name in given if name in os.environ})
    started = []

    def start(name, *arguments, **more):
        started.append(subprocess.Popen(
            [sys.executable, str(BENCH / f"{name}.py"), *arguments], env={**env, **more},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        end_group(process)
        process.communicate()


def end_group(process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)


@pytest.mark.timeout(TIMEOUT_S + 50)
@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_runs_in_smoke_mode(script, start_bench, tmp_path):
    if script.stem == "report_page" and "ROUSE_NODE_MODULES" not in os.environ:
        pytest.skip("needs Node with web/'s packages; ./dev test gives them")
    process = start_bench(script.stem, "--smoke")
    out, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    lines = out.splitlines()
    for pattern in TOLD[script.stem]:
        assert any(re.fullmatch(pattern, line) for line in lines), f"{pattern}\n{out}\n{errors}"


def test_a_comparison_without_a_measurement_fails(start_bench):
    process = start_bench("wire_peers", "--smoke", "--rouse", "/bin/false")
    out, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1 and "rouse: no TTFT was told" in errors, out


def marked(marker: str) -> list[int]:
    """Processes that were started with this marker, and are no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"ROUSE_TEST_MARKER={marker}".encode() in (
                    entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_benchmark_that_is_ended_leaves_nothing(start_bench, tmp_path, number):
    """The one that has most to leave: a server, loads, control groups, a copy of the model."""
    cache = tmp_path / "cache"
    marker = f"bench-{os.getpid()}-{number}"
    process = start_bench("explain", "--only", "disk_reader", "--patience", "0", "--tries", "1",
                          ROUSE_TEST_MARKER=marker, ROUSE_CACHE=str(cache))
    deadline = time.monotonic() + 60
    while len(marked(marker)) < 10:  # the bench, its server, and sixteen readers of the disk
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)
    process.send_signal(number)
    process.wait(40)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert list((cache / "tmp").iterdir()) == []
        assert list(Path("/sys/fs/cgroup").glob(f"*/rouse-bench-{process.pid}")) == []
    deadline = time.monotonic() + 40
    while marked(marker):
        assert time.monotonic() < deadline, marked(marker)
        time.sleep(0.05)
    for group in Path("/sys/fs/cgroup").glob(f"*/rouse-bench-{process.pid}"):
        group.rmdir()  # only of the one that was killed; the next run of the bench would do it


def test_a_child_whose_benchmark_went_before_it_could_ask_ends_itself():
    script = f"""
import os, sys
sys.path.insert(0, {str(BENCH)!r})
from support import running
for benchmark in (os.getpid(), 1):
    running.BENCHMARK = benchmark
    child = os.fork()
    if child == 0:
        running.die_with_parent()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                            check=True, timeout=20)
    assert answer.stdout.split() == ["0", "1"]


def test_models_that_were_not_measured_anew_keep_their_rows():
    script = f"""
import json, sys
sys.path.insert(0, {str(BENCH)!r})
from support.raw_rows import merged
old = [{{"kind": "settings", "models": ["real", "1b"], "seed": 1}}, {{"kind": "machine"}},
       {{"kind": "arm", "model": "real"}}, {{"kind": "attempt", "model": "1b", "n": 1}},
       {{"kind": "done", "piece": "real new"}}, {{"kind": "done", "piece": "1b new"}},
       {{"kind": "settings", "models": ["3b"]}}, {{"kind": "attempt", "model": "3b"}}]
new = [{{"kind": "settings", "models": ["1b"], "seed": 2}}, {{"kind": "attempt", "model": "1b"}}]
print(json.dumps(merged(old, new)))
print(json.dumps(merged(old, [{{"kind": "settings"}}, {{"model": "3b", "kind": "attempt"}}])))
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                            check=True, timeout=20)
    first, second = map(json.loads, answer.stdout.splitlines())
    assert first == [
        {"kind": "settings", "models": ["real"], "seed": 1}, {"kind": "machine"},
        {"kind": "arm", "model": "real"}, {"kind": "done", "piece": "real new"},
        {"kind": "settings", "models": ["1b"], "seed": 2}, {"kind": "attempt", "model": "1b"},
        {"kind": "settings", "models": ["3b"]}, {"kind": "attempt", "model": "3b"}]
    assert [row["kind"] for row in second] == [
        "settings", "machine", "arm", "attempt", "done", "done", "settings", "attempt"]
