"""`rouse serve` as a user who neither owns the model's file nor may write it: the kernel counts no
pages for such users (since Linux 6.14), and nothing is told as a fact that is a sample."""
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from serve_test import Api  # noqa: E402

NOBODY = 65534
WAIT_S = 60
BODY = {"prompt": "The sky", "max_tokens": 2, "ignore_eos": True, "temperature": 0}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def shared_model(run_rouse, open_folder) -> Path:
    """Of root's, readable by everybody."""
    path = open_folder / "shared.gguf"
    made = run_rouse("synth", path, "--like", "tiny", "--quiet", timeout=120)
    assert made.status == 0, made.stderr
    path.chmod(0o644)
    return path


@pytest.fixture
def nobodys_server(rouse, open_folder, environment, shared_model):
    """A server of that user's that has loaded nothing yet."""
    home = open_folder / "nobody"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    copy = open_folder / "rouse"
    copy.write_bytes(rouse.read_bytes())
    copy.chmod(0o755)
    process = subprocess.Popen(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", str(copy), "serve",
         "--model", str(shared_model), "--port", "0", "--load", "lazy", "--context", "256",
         "--threads", "1"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**environment, "HOME": str(home), "TMPDIR": str(home)})
    with contextlib.ExitStack() as stack:
        stack.callback(process.stdout.close)
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)

        class Started:
            port = json.loads(process.stdout.readline())["port"]

        api = Api(Started)
        until = time.monotonic() + WAIT_S
        while not entry_of(api):  # listens before it has an engine
            assert time.monotonic() < until
        yield api


def entry_of(api: Api) -> dict:
    models = api("GET", "/state")[1]["models"]
    return models[0] if models else {}


def settled(api: Api) -> dict:
    until = time.monotonic() + WAIT_S
    while (entry := entry_of(api))["reader"]["state"] == "running":
        assert time.monotonic() < until, entry["reader"]
    return entry


def test_an_estimate_is_told_as_one_and_only_reads_of_the_disk_count(
        run_rouse, nobodys_server, shared_model):
    api, size = nobodys_server, shared_model.stat().st_size
    assert run_rouse("evict", shared_model).status == 0
    cold = entry_of(api)
    assert cold["resident_ratio"] is None
    assert "neither owns the file" in cold["null_reasons"]["resident_ratio"]
    assert cold["layer_details"]["page_cache"] == {"proof": "sampled", "resident_bytes": None}
    assert cold["estimate"]["low"] == 0 and 0 < cold["estimate"]["high"] <= 0.01
    assert cold["layers"]["page_cache"] == "cold"
    with api.response("GET", "/metrics") as response:
        assert "rouse_model_resident_ratio" not in response.read().decode()
    # Looking has warmed nothing, so the reader brings all of it in, with the pages that are
    # computed before it comes to them.
    assert api("POST", "/v1/completions", BODY)[0] == 200
    warm = settled(api)
    assert warm["reader"]["state"] == "done" and warm["reader"]["resident_bytes"] is None
    assert size * 0.2 < warm["reader"]["read_bytes"] < size * 1.1
    assert warm["layers"]["page_cache"] == "warm"
    assert warm["estimate"]["low"] >= 0.99 and warm["resident_ratio"] is None
    # The next load finds all of it in memory, though nobody tells: nothing was brought in.
    assert api("POST", "/models/unload", {"model": "shared"})[0] == 200
    assert api("POST", "/v1/completions", BODY)[0] == 200
    again = settled(api)["reader"]
    assert again["started_ns"] > warm["reader"]["started_ns"]
    assert again["state"] == "done" and again["read_bytes"] == 0
