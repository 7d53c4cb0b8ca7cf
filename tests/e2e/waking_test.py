"""`rouse serve` between ready and unloaded: sleep, waking, many first requests, and model files
that change, break or do not fit into memory while they are in use."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from serve_test import QUICK, Api, chat_body  # noqa: E402

WAIT_S = 60
MODEL = {"model": "model"}


@pytest.fixture
def own_model(model, tmp_path) -> Path:
    """A copy that a test may break."""
    copy = tmp_path / "model.gguf"
    shutil.copyfile(model, copy)
    return copy


def serve(start_server, *arguments) -> Api:
    return Api(start_server(*QUICK, *arguments))


def entry_of(api: Api) -> dict:
    return api.models()[0]


def wait_for_state(api: Api, state: str) -> dict:
    until = time.monotonic() + WAIT_S
    while (entry := entry_of(api))["state"] != state:
        assert time.monotonic() < until, entry
        time.sleep(0.02)
    return entry


def memory_of(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


def text_of(answer: dict) -> str:
    return answer["choices"][0]["message"]["content"]


def test_asleep_the_pages_are_gone_and_waking_gives_the_same_answer(
        start_server, run_rouse, own_model):
    api = serve(start_server, "--model", own_model)
    before = text_of(api.chat())
    awake = memory_of(api.server.pid, "RssFile")
    assert api("POST", "/models/sleep", MODEL) == (200, {"success": True})
    asleep = entry_of(api)
    assert asleep["state"] == "asleep"
    assert asleep["layers"]["weights"] == "asleep"
    # A build without the engine edits (its OpenMP shows it) can't take the context's memory alone.
    edited = "openmp" not in run_rouse("--version").stdout
    assert asleep["layers"]["context"] == ("asleep" if edited else "absent")
    assert asleep["layers"]["tokenizer"] == "ready"
    assert api("GET", "/health")[1]["status"] == "asleep"
    # The pages are not in this process any more, so that the page cache may give them up.
    assert memory_of(api.server.pid, "RssFile") < awake - own_model.stat().st_size * 0.8
    evicted = run_rouse("evict", own_model, "--json")
    assert evicted.status == 0, evicted.stderr
    # Nothing was asked since, so nothing was read.
    assert entry_of(api)["resident_ratio"] <= 0.01
    woken = api.chat(rouse_timeline=True)
    assert text_of(woken) == before
    tiers = entry_of(api)["tiers"]
    assert tiers["asleep"]["first_token_ns"] > 0
    assert 0 < tiers["asleep"]["process_bytes"] < tiers["ready"]["process_bytes"]


def test_refused_requests_leave_a_sleeping_model_asleep(start_server, run_rouse, own_model):
    api = serve(start_server, "--model", own_model)
    assert text_of(api.chat())
    assert api("POST", "/models/sleep", MODEL)[0] == 200
    asleep, before = memory_of(api.server.pid, "RssFile"), entry_of(api)
    size, ends = own_model.stat().st_size, set()
    for body, path, status in ((chat_body(temperature="hot"), "/v1/chat/completions", 400),
                               (chat_body(model="another"), "/v1/chat/completions", 404),
                               (chat_body(), "/v9/completions", 404)):
        assert run_rouse("evict", own_model).status == 0
        assert api("POST", path, body)[0] == status
        entry = entry_of(api)
        while entry["reader"]["state"] == "running":
            entry = entry_of(api)
        ends.add(entry["reader"]["state"])
        # Whatever was read before the refusal is in the page cache, not in this process.
        assert entry["reader"]["mapped_bytes"] == 0
        assert entry["state"] == "asleep" and entry["memory_bytes"] == before["memory_bytes"]
        assert memory_of(api.server.pid, "RssFile") < asleep + size * 0.1
    assert "cancelled" in ends
    assert api("POST", "/models/sleep", MODEL) == (200, {"success": True})
    assert entry_of(api)["state"] == "asleep"
    assert text_of(api.chat())


def test_the_server_sleeps_and_unloads_by_itself_and_tells_honest_estimates(start_server):
    api = serve(start_server, "--sleep-after", "300ms", "--unload-after", "1h")
    assert text_of(api.chat())
    wait_for_state(api, "asleep")
    assert text_of(api.chat())
    asleep = wait_for_state(api, "asleep")
    # A start from here was measured once: that is the estimate.
    assert asleep["eta_first_token_ns"] == asleep["tiers"]["asleep"]["first_token_ns"]
    api = serve(start_server, "--sleep-after", "300ms", "--unload-after", "1s")
    assert text_of(api.chat())
    unloaded = wait_for_state(api, "unloaded")
    assert unloaded["eta_first_token_ns"] is None
    assert "no load from a state like this" in unloaded["null_reasons"]["eta_first_token_ns"]
    assert unloaded["layers"]["tokenizer"] == "ready"
    assert text_of(api.chat())
    with api.response("GET", "/metrics") as response:
        metrics = response.read().decode()
    assert 'rouse_tier_first_token_seconds{model="smollm2-135m",tier="unloaded"}' in metrics


@pytest.mark.parametrize("flags", [
    ("--sleep-after", "soon"), ("--unload-after", "5"), ("--keep-leading", "120%"),
    ("--keep-leading", "much"), ("--repack", "maybe"), ("--reader", "fast")])
def test_memory_flags_are_checked_before_anything_is_done(run_rouse, flags):
    answer = run_rouse("serve", "--port", 0, *flags, timeout=20)
    assert answer.status == 2, answer.stderr
    assert flags[0] in answer.stderr


def test_fifty_first_requests_share_one_load(start_server):
    api = serve(start_server, "--load", "lazy")
    answers = []

    def ask():
        answers.append(api("POST", "/v1/chat/completions", chat_body(max_tokens=2))[0])

    asking = [threading.Thread(target=ask) for _ in range(50)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(WAIT_S)
    assert answers == [200] * 50
    with api.response("GET", "/metrics") as response:
        assert 'rouse_loads_total{result="ok"} 1\n' in response.read().decode()


def test_a_client_that_goes_while_its_load_runs_leaves_a_clear_state(start_server, own_model):
    api = serve(start_server, "--model", own_model, "--load", "lazy")
    until = time.monotonic() + WAIT_S
    while api("GET", "/health")[1]["status"] != "unloaded":  # "starting", right after it listens
        assert time.monotonic() < until
    for _ in range(5):
        with api.response("POST", "/models/unload", MODEL) as response:
            assert response.status == 200
        body = json.dumps(chat_body(stream=True))
        with api.raw() as raw:
            raw.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        # Stopped, or just in time to be whole: nothing between the two.
        until = time.monotonic() + WAIT_S
        while (state := entry_of(api)["state"]) == "loading":
            assert time.monotonic() < until
        assert state in ("unloaded", "ready")
    assert text_of(api.chat())


def test_a_file_that_is_cut_under_an_answer_ends_the_answer_and_not_the_server(
        start_server, own_model, model):
    api = serve(start_server, "--model", own_model)
    before = text_of(api.chat())
    with api.response("POST", "/v1/chat/completions",
                      chat_body(stream=True, max_tokens=480, ignore_eos=True)) as response:
        heard = response.read1(200)
        os.truncate(own_model, 1_000_000)  # the kernel takes the pages away at once
        heard += response.read()
    events = heard.decode()
    assert "[DONE]" not in events
    last = json.loads(events.rstrip().split("\n\n")[-1].removeprefix("data: "))
    assert str(own_model) in last["error"]["message"]
    assert "1000000 bytes now" in last["error"]["message"]
    entry = wait_for_state(api, "failed")
    assert str(own_model) in entry["failure"]
    # As long as it is cut, that is what is said; whole again, it is loaded.
    status, refused = api("POST", "/v1/chat/completions", chat_body())
    assert status == 503 and "is cut off" in refused["error"]["message"]
    shutil.copyfile(model, own_model)
    assert text_of(api.chat()) == before
    assert api.server.process.poll() is None


def test_a_file_that_is_cut_while_asleep_is_told_at_the_wake(start_server, own_model, model):
    api = serve(start_server, "--model", own_model)
    before = text_of(api.chat())
    api("POST", "/models/sleep", MODEL)
    os.truncate(own_model, 50_000_000)
    status, refused = api("POST", "/v1/chat/completions", chat_body())
    assert status == 503 and "is cut off" in refused["error"]["message"]
    shutil.copyfile(model, own_model)
    assert text_of(api.chat()) == before


def test_a_replaced_file_serves_until_the_next_load_and_a_removed_one_is_told(
        start_server, run_rouse, own_model, model):
    api = serve(start_server, "--model", own_model)
    before = text_of(api.chat())
    other = own_model.with_name("other")
    shutil.copyfile(model, other)
    os.replace(other, own_model)
    assert text_of(api.chat()) == before
    # What is told of pages, and what is read ahead, is never of a file that is not the mapped one.
    reader = settled_reader(api)
    replaced = entry_of(api)
    assert replaced["resident_ratio"] is None and replaced["layers"]["page_cache"] == "unknown"
    assert "was replaced since it was loaded" in replaced["null_reasons"]["resident_ratio"]
    assert run_rouse("evict", own_model).status == 0
    time.sleep(1.2)  # long enough that the server looks whether pages have gone
    assert text_of(api.chat()) == before
    assert entry_of(api)["reader"]["started_ns"] == reader["started_ns"]
    assert run_rouse("state", own_model, "--json").json()["resident_ratio"] <= 0.01
    api("POST", "/models/unload", MODEL)
    assert text_of(api.chat()) == before
    assert entry_of(api)["resident_ratio"] > 0.99
    assert "was replaced" in api.server.stderr()
    os.rename(own_model, other)
    assert text_of(api.chat()) == before  # what is mapped stays
    api("POST", "/models/unload", MODEL)
    status, refused = api("POST", "/v1/chat/completions", chat_body())
    assert status == 503 and str(own_model) in refused["error"]["message"]
    os.rename(other, own_model)
    assert text_of(api.chat()) == before


def test_a_start_needs_no_more_memory_than_llama_servers(
        start_server, llama_server, model, free_port, tmp_path):
    """At its peak, mapped file pages included, after one answer: at most 1.1 of llama-server's with
    the flags of bench/cold_start that make it small and early."""
    body = {"prompt": "The sky is", "max_tokens": 4, "n_predict": 4, "temperature": 0}
    ours = Api(start_server("--context", 2048))
    assert ours("POST", "/v1/completions", body)[0] == 200
    with open(tmp_path / "llama.log", "wb") as log:
        process = subprocess.Popen(
            [llama_server, "-m", model, "--host", "127.0.0.1", "--port", str(free_port),
             "-c", "2048", "-np", "1", "-t", "1", "--fit", "off", "--no-warmup", "--no-repack",
             "-cram", "0", "--no-ui"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        class Started:
            port = free_port

        theirs, until = Api(Started), time.monotonic() + WAIT_S
        while True:
            with contextlib.suppress(OSError):
                if theirs("POST", "/v1/completions", body)[0] == 200:
                    break
            assert time.monotonic() < until and process.poll() is None, "llama-server answers not"
            time.sleep(0.05)
        peaks = memory_of(ours.server.pid, "VmHWM"), memory_of(process.pid, "VmHWM")
        assert peaks[0] <= 1.1 * peaks[1], peaks
    finally:
        process.kill()
        process.wait(20)


def set_limit(group: Path, limit_bytes: int):
    v1 = (group / "memory.limit_in_bytes").exists()
    (group / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(limit_bytes))


def settled_reader(api: Api) -> dict:
    until = time.monotonic() + WAIT_S
    while (reader := entry_of(api)["reader"])["state"] == "running":
        assert time.monotonic() < until, reader
    return reader


def memory_group(limit_bytes: int) -> Path:
    """A control group of our own with that limit, v1 or v2; skips where we may not make one."""
    base = Path("/sys/fs/cgroup")
    v1 = (base / "memory").is_dir()
    group = (base / "memory" if v1 else base) / f"rouse-test-{os.getpid()}"
    try:
        group.mkdir()
        set_limit(group, limit_bytes)
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    return group


def test_a_memory_limit_below_the_files_size_is_kept_and_the_model_answers(
        rouse, run_rouse, environment, tmp_path):
    path = tmp_path / "large.gguf"
    made = run_rouse("synth", path, "--like", "moe-small", "--quiet", timeout=120)
    assert made.status == 0, made.stderr
    assert run_rouse("evict", path).status == 0
    limit = 330 << 20
    assert path.stat().st_size > limit
    group = memory_group(limit)
    process = subprocess.Popen(
        ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group), str(rouse), "serve",
         "--model", str(path), "--port", "0", "--context", "256", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        ready = json.loads(process.stdout.readline())

        class Started:
            port = ready["port"]

        api = Api(Started)
        body = {"prompt": "The sky", "max_tokens": 6, "ignore_eos": True, "temperature": 0}
        status, answer = api("POST", "/v1/completions", body)
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] == 6
        entry = entry_of(api)
        assert entry["reader"]["state"] == "memory", entry["reader"]
        assert entry["reader"]["omitted_bytes"] > 0
        assert entry["reader"]["tail"]["given_up_bytes"] > 0
        assert entry["resident_ratio"] < limit / path.stat().st_size
        # What is resident by now makes the file no smaller.
        assert api("POST", "/v1/completions", body)[0] == 200
        again = settled_reader(api)
        assert again["started_ns"] > entry["reader"]["started_ns"]
        assert again["state"] == "memory" and "tail" in again, again
        # Nor do its cached pages, which count as used in the group, stand in the way of a load.
        assert api("POST", "/models/unload", {"model": "large"})[0] == 200
        assert api("POST", "/v1/completions", body)[0] == 200
        # With memory enough it is read like any other, and no page is given up any more.
        set_limit(group, 2 << 30)
        assert api("POST", "/v1/completions", body)[0] == 200
        until = time.monotonic() + WAIT_S
        while (entry := entry_of(api))["reader"]["state"] != "done" or "tail" in entry["reader"]:
            assert time.monotonic() < until, entry["reader"]
            assert api("POST", "/v1/completions", body)[0] == 200
        assert entry["resident_ratio"] > 0.99
    finally:
        process.terminate()
        assert process.wait(20) == 0
        group.rmdir()
