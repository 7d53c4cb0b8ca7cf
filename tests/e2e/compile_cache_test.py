"""The layer compile_cache on a server that does compile, and keeps what it has compiled: emptied
and kept are told apart by bytes, by how often the compiler ran, and by the TTFT."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = Path(__file__).resolve().parents[1] / "support" / "compiling_server.py"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the server needs a C compiler")

CONDITIONS = """
[[condition]]
name = "kept"
state = { process = "new", model = "unloaded" }
[[condition]]
name = "empty"
base = "kept"
state = { compile_cache = "empty" }
"""


@pytest.fixture
def measured(rouse, environment, tmp_path):
    """measured(*server_arguments) -> (attempts, durations of each compilation)."""

    def run(*arguments, only=(), repeat=2):
        log = tmp_path / "compilations"
        log.touch()
        words = " ".join([sys.executable, str(SERVER), "{port}", str(log), *map(str, arguments)])
        plan = tmp_path / "plan.toml"
        plan.write_text(f'[experiment]\nname = "kernels"\nrepeat = {repeat}\nseed = 3\n'
                        f'[target]\nkind = "command"\ncommand = "{words}"\n'
                        f'compile_cache_env = "KERNEL_CACHE"\n{CONDITIONS}')
        answer = subprocess.run([str(rouse), "measure", str(plan), "--json",
                                 *[word for name in only for word in ("--only", name)]],
                                capture_output=True, text=True, env=environment, timeout=170,
                                stdin=subprocess.DEVNULL, check=False)
        assert answer.returncode == 0, answer.stderr[-3000:]
        attempts = json.loads(answer.stdout)["attempts"]
        return attempts, [int(line) for line in log.read_text().split()]

    return run


def of(attempts, name):
    found = [each for each in attempts if each["condition"] == name and each["block"] is not None]
    assert found and all(each["outcome"] == "ok" for each in found), found
    return found


def bytes_told(attempt, when) -> str:
    return attempt[when]["compile_cache"]["detail"].split(" of /")[0]


@pytest.mark.timeout(180)
def test_an_emptied_cache_is_compiled_anew_and_a_kept_one_is_not(measured):
    attempts, compilations = measured()
    empty, kept = of(attempts, "empty"), of(attempts, "kept")
    # The unmeasured first attempt fills the cache; then each attempt of "empty" compiles, and none
    # of "kept" does.
    assert len(compilations) == 1 + len(empty)
    for attempt in empty:
        before, after = attempt["state_at_send"], attempt["state_after"]
        assert before["compile_cache"]["value"] == "empty"
        assert before["compile_cache"]["reached"] is True
        assert bytes_told(attempt, "state_at_send") == "0 B in 0 files"
        assert after["compile_cache"]["value"] == "kept"
        assert bytes_told(attempt, "state_after").endswith("kB in 1 files")
        assert [each["code"] for each in attempt["warnings"]] == []
    for attempt in kept:
        assert attempt["state_at_send"]["compile_cache"]["value"] == "kept"
        assert bytes_told(attempt, "state_at_send") == bytes_told(attempt, "state_after")
    # What the compiler took, by the server's own clock, is in the TTFT.
    for attempt, compiled_ns in zip(empty, compilations[1:]):
        assert attempt["ttft_ns"] > compiled_ns
    # The compiler is a child of the server: its work is in the counters of the tree.
    assert min(each["counters"]["target_user_cpu_ns"] for each in empty) > \
        max(each["counters"]["target_user_cpu_ns"] for each in kept)


@pytest.mark.timeout(180)
def test_a_server_that_keeps_its_kernels_elsewhere_is_noticed(measured, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    attempts, compilations = measured("--elsewhere", other, repeat=1)
    assert len(compilations) == 1  # emptying our directory changes nothing
    for attempt in of(attempts, "empty"):
        assert attempt["state_after"]["compile_cache"]["value"] == "empty"
        warning = [each for each in attempt["warnings"] if each["code"] == "compile_cache_unused"]
        assert len(warning) == 1 and "compile_cache_env" in warning[0]["message"]
