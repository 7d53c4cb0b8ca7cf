"""Every Python benchmark still works: its --smoke mode, of about a second, ends well and prints
data. What it measures is judged by people, never here."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).resolve().parents[2] / "bench").glob("*.py"))


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_runs_in_smoke_mode(script, rouse, model, environment):
    env = {**environment, "ROUSE_BINARY": str(rouse), "ROUSE_MODEL": str(model)}
    given = ("ROUSE_LLAMA_SERVER", "ROUSE_NAIVE", "ROUSE_NAIVE_MISSING", "ROUSE_NODE",
             "ROUSE_NODE_MODULES")
    env.update({name: os.environ[name] for name in given if name in os.environ})
    if script.stem == "report_page" and "ROUSE_NODE_MODULES" not in env:
        pytest.skip("needs Node with web/'s packages; ./dev test gives them")
    answer = subprocess.run([sys.executable, script, "--smoke"], env=env, capture_output=True,
                            text=True, timeout=100, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip(), "a benchmark prints its data"
