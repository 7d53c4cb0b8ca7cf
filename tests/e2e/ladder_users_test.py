"""The state ladder as users without privilege: the owner of the file proves each of its layers; who
does not own it proves what a sample can show, and is told when it can't."""
import json
import os
import subprocess
from pathlib import Path

import pytest
from ladder_loads import LOADS

MODEL_BYTES = 250_000_000
NOBODY = 65534
MEASURE_TIMEOUT_S = 280

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def nobody(open_folder, rouse, environment):
    """nobody("evict", file) runs the binary as a user without any privilege."""
    home = open_folder / "nobody"
    home.mkdir()
    copy = home / "rouse"
    copy.write_bytes(rouse.read_bytes())
    copy.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)

    def run(*arguments, limits=()):
        return subprocess.run(
            [*limits, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
             str(copy), *map(str, arguments)], capture_output=True, text=True,
            timeout=MEASURE_TIMEOUT_S, stdin=subprocess.DEVNULL, check=False,
            env={**environment, "HOME": str(home), "ROUSE_CACHE": str(home),
                 "TMPDIR": str(home), "ROUSE_DB": str(home / "r.sqlite")})

    run.home = home
    return run


@pytest.fixture
def big_file(nobody) -> Path:
    """A synthetic model of its own, at least 250 MB."""
    file = nobody.home / "own.gguf"
    made = nobody("synth", file, "--like", "qwen-0.5b", "--quant", "q4_0", "--vocab", "128k",
                  "--quiet")
    assert made.returncode == 0, made.stderr
    assert file.stat().st_size >= MODEL_BYTES
    return file


def measured(nobody, file, conditions: str, target="context = 256\n", status=0) -> dict:
    plan = nobody.home / "plan.toml"
    plan.write_text('[experiment]\nname = "ladder"\nrepeat = 1\nmax_tokens = 4\n'
                    f'[target]\nmodel = "{file}"\n{target}' + conditions)
    answer = nobody("measure", plan, "--json")
    assert answer.returncode == status, answer.stderr[-3000:]
    return {each["condition"]: each for each in json.loads(answer.stdout)["attempts"]
            if each.get("block") is not None}


def reached(attempt, layer, when="state_at_send"):
    assert attempt["outcome"] == "ok", (attempt["condition"], attempt["outcome_detail"])
    reading = attempt[when][layer]
    assert reading["reached"] is True, (attempt["condition"], json.dumps(reading))
    return reading


LADDER = """
[[condition]]
name = "warm"
[[condition]]
name = "unloaded"
base = "warm"
state = { model = "unloaded" }
[[condition]]
name = "half"
base = "unloaded"
state = { page_cache = 0.5 }
[[condition]]
name = "new"
base = "unloaded"
state = { process = "new" }
[[condition]]
name = "cold"
base = "new"
state = { page_cache = "cold" }
""" + LOADS


@pytest.mark.timeout(300)
def test_an_owner_without_privilege_sets_and_proves_every_layer(nobody, big_file):
    attempts = measured(nobody, big_file, LADDER)
    exact = ("cachestat", "mincore")
    warm = reached(attempts["warm"], "page_cache")
    assert warm["value"] >= 0.99 and warm["proof"] in exact
    cold = reached(attempts["cold"], "page_cache")
    assert cold["value"] <= 0.01 and cold["proof"] in exact
    assert abs(reached(attempts["half"], "page_cache")["value"] - 0.5) <= 0.02
    assert attempts["kept"]["connection"]["reused"] is True
    assert attempts["warm"]["connection"]["reused"] is False
    assert attempts["hit"]["tokens"]["cached"] >= attempts["hit"]["tokens"]["prompt"] - 1
    assert attempts["warm"]["tokens"]["cached"] == 0
    assert reached(attempts["unloaded"], "model", "state_before")["value"] == "unloaded"
    assert reached(attempts["new"], "process", "state_after")["value"] == "new"
    assert int(reached(attempts["memory pressure"], "memory_pressure")["value"]) >= 64 << 20
    for load in ("cpu", "disk", "requests"):
        assert reached(attempts[load], "background", "state_after")["value"] == load
    # Evidence of its own processes needs no privilege.
    assert attempts["cold"]["counters"]["target_read_bytes"] >= MODEL_BYTES / 2
    assert attempts["new"]["counters"]["target_read_bytes"] <= MODEL_BYTES / 10


LLAMA_SERVER_LADDER = """
[[condition]]
name = "warm"
[[condition]]
name = "new"
base = "warm"
state = { process = "new", model = "unloaded" }
compound = true
[[condition]]
name = "half"
base = "new"
state = { page_cache = 0.5 }
[[condition]]
name = "cold"
base = "new"
state = { page_cache = "cold" }
""" + LOADS


@pytest.mark.timeout(300)
def test_an_owner_without_privilege_does_so_on_llama_server(nobody, big_file, llama_server):
    binary = nobody.home / "llama-server"
    binary.write_bytes(llama_server.read_bytes())
    binary.chmod(0o755)
    attempts = measured(nobody, big_file, LLAMA_SERVER_LADDER, target=(
        f'kind = "command"\ncommand = "{binary} -m {{model}} --port {{port}} -c 256 -np 1 '
        f'--fit off --no-warmup --no-ui"\nmodel_file = "{big_file}"\n'))
    assert reached(attempts["warm"], "page_cache")["value"] >= 0.99
    assert reached(attempts["cold"], "page_cache")["value"] <= 0.01
    assert abs(reached(attempts["half"], "page_cache")["value"] - 0.5) <= 0.02
    assert attempts["hit"]["tokens"]["cached"] >= attempts["hit"]["tokens"]["prompt"] - 1
    assert attempts["warm"]["tokens"]["cached"] < attempts["warm"]["tokens"]["prompt"] / 2
    for name in ("new", "half", "cold"):
        assert reached(attempts[name], "process", "state_after")["value"] == "new"
    assert int(reached(attempts["memory pressure"], "memory_pressure")["value"]) >= 64 << 20
    for load in ("cpu", "disk", "requests"):
        assert reached(attempts[load], "background", "state_after")["value"] == load
    assert attempts["cold"]["counters"]["target_read_bytes"] >= MODEL_BYTES / 2
    assert attempts["new"]["counters"]["target_read_bytes"] <= MODEL_BYTES / 10


@pytest.mark.timeout(300)
def test_who_does_not_own_the_file_proves_what_a_sample_can_show(nobody, big_file):
    os.chown(big_file, 0, 0)
    big_file.chmod(0o644)
    attempts = measured(nobody, big_file, """
[[condition]]
name = "warm"
state = { model = "unloaded" }
[[condition]]
name = "cold"
base = "warm"
state = { page_cache = "cold" }
[[condition]]
name = "half"
base = "warm"
state = { page_cache = 0.5 }
""")
    for name in ("warm", "cold"):
        reading = reached(attempts[name], "page_cache")
        assert reading["proof"].startswith("sampled, between ")
        assert "owner or root" in reading["proof"]
    # A half cannot be told from 0.46 or 0.54 by 512 pages, so it is not claimed.
    assert attempts["half"]["outcome"] == "state_not_reached"
    assert "sampled, between " in attempts["half"]["outcome_detail"]
    assert attempts["cold"]["counters"]["target_read_bytes"] >= MODEL_BYTES / 2


def test_pin_within_the_limit_holds_and_beyond_it_names_the_limit(nobody):
    """The limit is what a user has (8 MB as a rule): raising it needs more than this test may."""
    size = 4 << 20
    file = nobody.home / "weights.bin"
    file.write_bytes(b"w" * size)
    os.chown(file, NOBODY, NOBODY)
    enough = nobody("pin", file, "--for", "200ms", "--json",
                    limits=("prlimit", f"--memlock={size}:{size}"))
    assert enough.returncode == 0, enough.stderr
    pinned = json.loads(enough.stdout.splitlines()[0])
    assert pinned["locked_bytes"] == pinned["resident_bytes"] == size
    short = nobody("pin", file, "--for", "200ms",
                   limits=("prlimit", f"--memlock={size - 4096}:{size - 4096}"))
    assert short.returncode == 3 and short.stdout == ""
    assert "RLIMIT_MEMLOCK" in short.stderr and "prlimit" in short.stderr
