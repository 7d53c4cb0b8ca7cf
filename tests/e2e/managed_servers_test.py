"""Servers that run already and have control calls of their own, the real ones: each layer that
src/lab/targets.cc claims for them is set, proved before the request and seen after it.

- Ollama (ROUSE_OLLAMA: ./dev peers builds it, ./dev test uses it when it is there), with the real
  model, made by `ollama create` from the GGUF file without any network;
- llama-swap (ROUSE_LLAMA_SWAP, else one on PATH: its Go module is not to be had from the public
  proxy, so ./dev cannot build it), in front of the llama-server that ./dev builds.
"""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from ladder_loads import LOADS

MEASURE_TIMEOUT_S = 280
BALLAST_BYTES = 64 << 20
TRIES = 2  # on a machine where others drop pages, one attempt may find its state lost

LADDER = """
[[condition]]
name = "warm"
[[condition]]
name = "unloaded"
base = "warm"
state = { model = "unloaded" }
[[condition]]
name = "cold"
base = "unloaded"
state = { page_cache = "cold" }
[[condition]]
name = "half"
base = "unloaded"
state = { page_cache = 0.5 }
""" + LOADS


@pytest.fixture
def measure(rouse, environment, tmp_path):
    """measure(target lines) -> condition name -> its attempts, in order."""

    def run(target: str):
        path = tmp_path / "plan.toml"
        path.write_text(f'[experiment]\nname = "managed"\nrepeat = {TRIES}\nmax_tokens = 4\n'
                        f"[target]\n{target}{LADDER}")
        answer = subprocess.run(
            [str(rouse), "measure", str(path), "--json", "--db", str(tmp_path / "r.sqlite")],
            capture_output=True, text=True, env=environment, timeout=MEASURE_TIMEOUT_S,
            stdin=subprocess.DEVNULL, check=False)
        assert answer.returncode == 0, answer.stderr[-3000:]
        found = {}
        for each in json.loads(answer.stdout)["attempts"]:
            if each.get("block") is not None:
                found.setdefault(each["condition"], []).append(each)
        return found

    return run


def good(attempts: dict, name: str) -> dict:
    """One attempt of the condition that was made in its state; the others can only have lost it."""
    for each in attempts[name]:
        assert each["outcome"] in ("ok", "state_not_reached"), each["outcome_detail"]
    found = [each for each in attempts[name] if each["outcome"] == "ok"]
    assert found, [each["outcome_detail"] for each in attempts[name]]
    return found[0]


def reading(attempt: dict, layer: str, when: str = "state_at_send") -> dict:
    found = attempt[when][layer]
    assert found["reached"] is True, (attempt["condition"], found)
    return found


@contextlib.contextmanager
def running(command: list, port: int, log: Path, environment: dict):
    with open(log, "wb") as stream:
        process = subprocess.Popen(list(map(str, command)), stdout=stream, stderr=stream,
                                   stdin=subprocess.DEVNULL, env=environment)
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            assert process.poll() is None and time.monotonic() < deadline, \
                log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def get(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def check_ladder(attempts: dict, file_bytes: int) -> None:
    """What both have; see targets.cc for what each proves it by."""
    unloaded = good(attempts, "unloaded")
    state = reading(unloaded, "model", "state_before")
    assert state["value"] == "unloaded" and "no mapping" in state["proof"]
    assert unloaded["state_after"]["model"]["value"] == "loaded"  # by the request itself
    assert reading(good(attempts, "warm"), "model", "state_before")["value"] == "loaded"
    cold = good(attempts, "cold")
    assert reading(cold, "page_cache")["value"] <= 0.01
    assert cold["counters"]["target_read_bytes"] >= 0.9 * file_bytes
    half = good(attempts, "half")
    assert 0.48 <= reading(half, "page_cache")["value"] <= 0.52
    assert 0.4 * file_bytes <= half["counters"]["target_read_bytes"] <= 0.6 * file_bytes
    pressure = good(attempts, "memory pressure")
    assert int(reading(pressure, "memory_pressure")["value"]) >= BALLAST_BYTES
    for load in ("cpu", "disk", "requests"):
        assert reading(good(attempts, load), "background", "state_after")["value"] == load
    # The whole of it is counted: the process behind the port, and the one that has the model.
    warm = good(attempts, "warm")
    assert warm["counters"]["target_processes"] == 2
    assert warm["counters"]["target_rss_bytes"] > file_bytes / 2


# --- Ollama ---------------------------------------------------------------------------------------


@pytest.fixture
def ollama(model, tmp_path, free_port):
    """A running Ollama that has the real model as "smol"; its URL and the file that it reads."""
    program = os.environ.get("ROUSE_OLLAMA")
    if not program:
        pytest.skip("Ollama: " + os.environ.get("ROUSE_OLLAMA_MISSING", "ROUSE_OLLAMA is not set"))
    store = tmp_path / "store"
    environment = {**os.environ, "HOME": str(tmp_path), "OLLAMA_MODELS": str(store),
                   "OLLAMA_HOST": f"127.0.0.1:{free_port}", "OLLAMA_CONTEXT_LENGTH": "1024"}
    with running([program, "serve"], free_port, tmp_path / "ollama.log", environment):
        recipe = tmp_path / "Modelfile"
        # Two threads would wait for each other on a busy machine.
        recipe.write_text(f"FROM {model}\nPARAMETER num_thread 1\n")
        subprocess.run([program, "create", "smol", "-f", str(recipe)], env=environment, check=True,
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
        blobs = [each for each in (store / "blobs").iterdir()
                 if each.stat().st_size == model.stat().st_size]
        assert len(blobs) == 1
        os.sync()  # a page that is not on disk yet cannot be dropped
        yield f"http://127.0.0.1:{free_port}", blobs[0]


@pytest.mark.timeout(300)
def test_each_layer_of_ollama(measure, ollama):
    url, file = ollama
    attempts = measure(f'kind = "ollama"\nurl = "{url}"\nmodel = "smol"\n'
                       f'model_file = "{file}"\napi = "ollama-chat"\n')
    check_ladder(attempts, file.stat().st_size)
    kept = good(attempts, "kept")
    assert kept["connection"]["reused"] is True
    # It does not tell cached tokens: neither claimed nor denied, but seen in the work saved.
    hit, warm = good(attempts, "hit"), good(attempts, "warm")
    assert hit["tokens"]["cached"] is None
    assert hit["state_before"]["prefix_cache"]["reached"] is None
    assert "does not report" in hit["state_before"]["prefix_cache"]["detail"]
    assert hit["counters"]["target_cpu_ns"] < warm["counters"]["target_cpu_ns"]
    # Loaded for as long as wanted: the number -1 is honoured.
    assert [each["model"] for each in get(f"{url}/api/ps")["models"]] == ["smol:latest"]


@pytest.mark.timeout(120)
def test_ollama_is_not_unloaded_before_its_runner_is_gone(measure, ollama, tmp_path, rouse,
                                                          environment):
    url, file = ollama
    plan = tmp_path / "unload.toml"
    plan.write_text(f'[experiment]\nname = "u"\nrepeat = 2\nmax_tokens = 1\n[target]\n'
                    f'kind = "ollama"\nurl = "{url}"\nmodel = "smol"\nmodel_file = "{file}"\n'
                    '[[condition]]\nname = "unloaded"\nstate = { model = "unloaded" }\n'
                    'idle = "2s"\n')
    seen = []  # when a count began and ended, and what it was
    tool = subprocess.Popen([str(rouse), "measure", str(plan), "--json", "--db",
                             str(tmp_path / "u.sqlite")], stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    port = int(url.rsplit(":", 1)[1])
    while tool.poll() is None:
        began = time.time()
        count = runner_count(port)
        seen.append((began, time.time(), count))
        time.sleep(0.1)
    attempts = json.loads(tool.stdout.read())["attempts"]
    tool.stdout.close()
    assert all(each["outcome"] == "ok" for each in attempts), attempts
    # No runner in an idle time; each request starts one, which is there until the next.
    sent = [each["started_wall_ns"] / 1e9 for each in attempts]
    for when in sent:
        idle = [count for began, ended, count in seen if when - 1.9 < began and ended < when]
        assert idle and not any(idle), (when, seen)
    assert any(count for began, _, count in seen if sent[0] < began), seen


def runner_count(port: int) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            variables = (entry / "environ").read_bytes().split(b"\0")
            count += (b"runner" in words and f"OLLAMA_HOST=127.0.0.1:{port}".encode() in variables)
    return count


# --- llama-swap -----------------------------------------------------------------------------------


@pytest.fixture
def llama_swap(llama_server, model, tmp_path, free_ports):
    program = os.environ.get("ROUSE_LLAMA_SWAP") or shutil.which("llama-swap")
    if not program:
        pytest.skip("llama-swap: not on PATH, and ROUSE_LLAMA_SWAP is not set; its module is not "
                    "on the public Go proxy, so ./dev cannot build it")
    port = free_ports()
    config = tmp_path / "swap.yaml"
    config.write_text(f"""
startPort: {free_ports()}
models:
  smol:
    cmd: {llama_server} -m {model} --port ${{PORT}} -c 1024 -np 1 -t 1 --fit off --no-warmup --no-ui
""")
    command = [program, "--config", config, "--listen", f"127.0.0.1:{port}"]
    with running(command, port, tmp_path / "swap.log",
                 {**os.environ, "HOME": str(tmp_path)}):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.timeout(300)
def test_each_layer_of_llama_swap(measure, llama_swap, model):
    attempts = measure(f'kind = "llama-swap"\nurl = "{llama_swap}"\nmodel = "smol"\n'
                       f'model_file = "{model}"\n')
    check_ladder(attempts, model.stat().st_size)
    hit, warm = good(attempts, "hit"), good(attempts, "warm")
    reading(hit, "prefix_cache", "state_before")
    assert hit["tokens"]["cached"] >= hit["tokens"]["prompt"] - 16
    assert warm["tokens"]["cached"] <= hit["tokens"]["prompt"] / 2
    assert [each["model"] for each in get(f"{llama_swap}/running")["running"]] == ["smol"]
