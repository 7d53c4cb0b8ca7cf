"""`rouse serve` with the real model: the official client, curl, wake-ups, signals and faults."""
import contextlib
import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import openai
import pytest

# One compute thread: a second one gains nothing for 135M parameters, and on a busy machine the two
# would wait for each other.
QUICK = ("--threads", 1, "--context", 512)
QUESTION = "Reply with one word: what colour is the sky?"
WAIT_S = 60


class Api:
    """Requests to one server, each on a connection of its own."""

    def __init__(self, server, key: str | None = None):
        self.server = server
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    @contextlib.contextmanager
    def response(self, method: str, path: str, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=WAIT_S)
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        try:
            connection.request(method, path, data, self.headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=WAIT_S)

    def __call__(self, method: str, path: str, body=None) -> tuple[int, dict]:
        with self.response(method, path, body) as response:
            text = response.read().decode()
            return response.status, json.loads(text) if text.startswith(("{", "[")) else text

    def chat(self, **more) -> dict:
        status, answer = self("POST", "/v1/chat/completions", chat_body(**more))
        assert status == 200, answer
        return answer

    def stream(self, path: str = "/v1/chat/completions", **more) -> list:
        """The data of each event, [DONE] as a string."""
        with self.response("POST", path, chat_body(stream=True, **more)) as response:
            assert response.status == 200
            return events_of(response.read().decode())

    def models(self) -> list[dict]:
        """Those of /state; right after the ready line there is none yet."""
        until = time.monotonic() + WAIT_S
        while not (models := self("GET", "/state")[1]["models"]):
            assert time.monotonic() < until, "no model in /state"
            time.sleep(0.01)
        return models

    def wait_until_ready(self) -> None:
        until = time.monotonic() + WAIT_S
        while self("GET", "/health")[0] != 200:
            assert time.monotonic() < until, "never healthy"
            time.sleep(0.01)


def chat_body(**more) -> dict:
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 8, "temperature": 0}
    return {**body, **more}


def events_of(text: str) -> list:
    assert text.endswith("\n\n")
    data = [event.removeprefix("data: ") for event in text[:-2].split("\n\n")]
    return [event if event == "[DONE]" else json.loads(event) for event in data]


def text_of(events: list) -> str:
    return "".join(choice["delta"].get("content", "") for event in events if event != "[DONE]"
                   for choice in event["choices"])


@pytest.fixture
def api(start_server) -> Api:
    api = Api(start_server(*QUICK))
    api.wait_until_ready()
    return api


def client_of(server, key: str = "none"):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=WAIT_S)


def test_the_official_client_streams_a_chat(start_server):
    # The model is still loading: the request waits for it.
    stream = client_of(start_server(*QUICK)).chat.completions.create(
        model="smollm2-135m", messages=[{"role": "user", "content": QUESTION}], max_tokens=8,
        temperature=0, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text.strip()
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons[-1] in ("stop", "length") and set(reasons[:-1]) == {None}
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens <= 8
    assert chunks[-1].usage.prompt_tokens > 10
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 0


def test_the_official_client_gets_whole_answers_and_typed_errors(api):
    client = client_of(api.server)
    chat = client.chat.completions.create(
        model="smollm2-135m", messages=[{"role": "user", "content": QUESTION}], max_tokens=8,
        temperature=0)
    assert chat.choices[0].message.role == "assistant"
    assert chat.choices[0].message.content == text_of(api.stream())
    text = client.completions.create(model="smollm2-135m", prompt="The sky is", max_tokens=4,
                                     temperature=0)
    assert text.object == "text_completion"
    assert text.choices[0].text and text.usage.completion_tokens == 4
    parts = list(client.completions.create(model="smollm2-135m", prompt="The sky is", max_tokens=4,
                                           temperature=0, stream=True))
    assert "".join(part.choices[0].text for part in parts) == text.choices[0].text
    assert [model.id for model in client.models.list()] == ["smollm2-135m"]
    with pytest.raises(openai.NotFoundError, match="smollm2-135m"):
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "a"}])
    with pytest.raises(openai.BadRequestError, match="512") as caught:
        client.chat.completions.create(
            model="smollm2-135m", messages=[{"role": "user", "content": "sky " * 2000}])
    assert caught.value.code == "context_length_exceeded"


def test_curl_streams(api):
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    answer = subprocess.run(
        [curl, "-sN", api.server.url + "/v1/chat/completions", "-d",
         json.dumps(chat_body(stream=True))], capture_output=True, text=True, timeout=WAIT_S,
        check=True)
    events = events_of(answer.stdout)
    assert events[-1] == "[DONE]"
    assert text_of(events) == text_of(api.stream())


def test_health_is_never_ok_while_it_could_not_answer_and_requests_are_queued(start_server):
    server = start_server(*QUICK)
    api = Api(server)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(api.chat(rouse_timeline=True)))
    asking.start()
    seen = set()
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        # Read before /health: once ready, it stays so.
        _, state = api("GET", "/state")
        status, health = api("GET", "/health")
        ready = bool(state["models"]) and state["models"][0]["state"] == "ready"
        seen.add(health["status"])
        if status == 200:
            assert health == {"status": "ok"}
            break
        assert not ready and status == 503
    assert "ok" in seen
    asking.join(WAIT_S)
    # Sent at once, it met a server that was loading or about to.
    stages = [segment["stage"] for segment in answers[0]["rouse"]["segments"]]
    assert stages[-2:] == ["prefill", "first_decode"]
    assert {"weights", "runtime_init", "tokenize"} & set(stages[:-2]), stages
    assert {"tokenizer", "weights", "context"} <= {
        lane["name"] for lane in answers[0]["rouse"]["lanes"]}
    assert answers[0]["choices"][0]["message"]["content"].strip()


def test_a_timeline_tiles_the_time_from_accept_to_the_first_token(api):
    for _ in range(3):
        body = json.dumps(chat_body(stream=True, rouse_timeline=True, cache_prompt=False))
        with socket.socket() as raw:
            started_ns = time.monotonic_ns()
            raw.connect(("127.0.0.1", api.server.port))
            raw.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            first = raw.recv(65536)
            rest = b"".join(iter(lambda: raw.recv(65536), b""))
            last_ns = time.monotonic_ns()
        # Headers, role and first token leave together.
        assert b'"role":"assistant"' in first and first.count(b"data: ") >= 2
        data = [line for line in (first + rest).split(b"\n") if line.startswith(b"data: {")]
        assert not any(b'"rouse"' in line for line in data[:-1])
        timeline = json.loads(data[-1][6:])["rouse"]
        assert timeline["schema"] == "rouse.timeline/1" and timeline["clock"] == "monotonic"
        segments = timeline["segments"]
        assert [s["stage"] for s in segments] == ["queue", "tokenize", "prefill", "first_decode"]
        for one, two in zip(segments, segments[1:]):
            assert one["end_ns"] == two["start_ns"]
            assert one["start_ns"] < one["end_ns"]
        # One clock: nothing before the client connected, nor after it has read the whole answer.
        # (It may have read the first token before the server's write() returned.)
        assert started_ns <= segments[0]["start_ns"] and segments[-1]["end_ns"] <= last_ns
        assert timeline["process"]["pid"] == api.server.pid
        assert timeline["process"]["exec_start_ns"] < timeline["process"]["listening_ns"]


def test_the_prefix_is_reused_unless_refused_and_the_answer_stays_the_same(api):
    first = api.chat()
    prompt_tokens = first["usage"]["prompt_tokens"]
    assert first["timings"]["cache_n"] == 0 and first["timings"]["prompt_n"] == prompt_tokens
    again = api.chat()
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == prompt_tokens - 1
    assert again["timings"]["prompt_n"] == 1
    fresh = api.chat(cache_prompt=False)
    assert fresh["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    texts = {answer["choices"][0]["message"]["content"] for answer in (first, again, fresh)}
    assert len(texts) == 1


def test_sampling_is_repeatable_with_a_seed_and_stops_where_asked(api):
    def text(**more):
        return api.chat(max_tokens=24, temperature=1.5, top_k=0, top_p=1, min_p=0,
                        **more)["choices"][0]["message"]["content"]

    assert text(seed=7) == text(seed=7)
    assert len({text(seed=seed) for seed in range(4)}) > 1
    greedy = api.chat(max_tokens=24)["choices"][0]["message"]["content"]
    word = greedy.split()[2]
    stopped = api.chat(max_tokens=24, stop=[word])
    assert stopped["choices"][0]["message"]["content"] == greedy[:greedy.index(word)]
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert api.chat(max_tokens=2)["choices"][0]["finish_reason"] == "length"


def test_unload_frees_the_weights_and_the_next_request_wakes_the_model(api):
    before = api.chat()["choices"][0]["message"]["content"]
    loaded = api("GET", "/state")[1]["models"][0]
    assert loaded["layers"]["weights"] == "ready" and loaded["layers"]["prefix"] == "held"
    assert api("POST", "/models/unload", {"model": "smollm2-135m"}) == (200, {"success": True})
    unloaded = api("GET", "/state")[1]["models"][0]
    assert unloaded["layers"]["weights"] == unloaded["layers"]["context"] == "absent"
    assert unloaded["layers"]["tokenizer"] == "ready" and unloaded["layers"]["prefix"] == "kept"
    status, health = api("GET", "/health")
    assert status == 503 and health["status"] == "unloaded"
    woken = api.chat(rouse_timeline=True)
    assert woken["choices"][0]["message"]["content"] == before
    # The prefix was kept beside the weights.
    usage = woken["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
    stages = [segment["stage"] for segment in woken["rouse"]["segments"]]
    assert "runtime_init" in stages or "weights" in stages
    assert api("GET", "/health")[0] == 200
    api("POST", "/models/unload", {"model": "smollm2-135m"})
    assert api("POST", "/models/load", {"model": "smollm2-135m", "wait": True})[0] == 200
    assert api("GET", "/health")[0] == 200


def test_state_tells_each_layer_and_an_estimate(api, model):
    api.chat()
    state = api("GET", "/state")[1]
    assert state["schema"] == "rouse.server_state/1"
    entry = state["models"][0]
    assert entry["id"] == "smollm2-135m" and entry["bytes"] == model.stat().st_size
    assert entry["file"] and os.path.samefile(entry["file"], model)
    assert 0 <= entry["resident_ratio"] <= 1
    assert entry["memory_bytes"] > 0
    assert 0 < entry["eta_first_token_ns"] < 60e9
    assert entry["since_ns"] <= state["now_ns"]
    assert state["process"]["pid"] == api.server.pid
    assert state["queue"] == {"waiting": 0, "limit": 64, "running": 0}


def test_metrics_are_prometheus_text(api):
    api.chat()
    with api.response("GET", "/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = response.read().decode().splitlines()
    samples = {}
    for line in lines:
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in samples
            samples[name] = float(value)
    assert samples['rouse_requests_total{outcome="ok"}'] == 1
    assert samples["rouse_ttft_seconds_count"] == 1
    assert samples['rouse_ttft_seconds_bucket{le="+Inf"}'] == 1
    stages = sum(value for name, value in samples.items()
                 if name.startswith("rouse_stage_seconds_sum"))
    assert stages == pytest.approx(samples["rouse_ttft_seconds_sum"], abs=1e-6)
    assert samples['rouse_model_loaded{model="smollm2-135m"}'] == 1


def test_a_client_that_hangs_up_does_not_keep_the_engine(api):
    with api.response("POST", "/v1/chat/completions",
                      chat_body(stream=True, max_tokens=400, ignore_eos=True)) as response:
        response.read(10)
    # Its 400 tokens are not generated: the next answer counts as the second request.
    api.chat()
    with api.response("GET", "/metrics") as response:
        text = response.read().decode()
    assert 'rouse_requests_total{outcome="cancelled"} 1' in text
    generated = int(text.split("\nrouse_generated_tokens_total ")[1].split("\n")[0])
    assert generated < 300


@pytest.mark.parametrize(("method", "path", "body", "status", "word"), [
    ("POST", "/v1/chat/completions", "{", 400, "JSON"),
    ("POST", "/v1/chat/completions", {"messages": 5}, 400, "messages"),
    ("POST", "/v1/chat/completions", chat_body(temperature="hot"), 400, "temperature"),
    ("POST", "/v1/chat/completions", chat_body(model="other"), 404, "other"),
    ("POST", "/v1/completions", {"prompt": []}, 400, "prompt"),
    ("POST", "/v1/completions", "x" * (8 * 1024 * 1024 + 1), 413, "8388608"),
    ("GET", "/v1/chat/completions", None, 405, "POST"),
    ("GET", "/nowhere", None, 404, "/nowhere"),
    ("POST", "/models/load", {"model": "other"}, 404, "other"),
])
def test_errors_are_openai_error_objects(api, method, path, body, status, word):
    answer = api(method, path, body)
    assert answer[0] == status
    error = answer[1]["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert word in error["message"]


def test_a_key_is_asked_for_but_never_taken_from_the_command_line(
        start_server, run_rouse, tmp_path):
    keys = tmp_path / "key"
    keys.write_text("a-secret\n")
    keys.chmod(0o600)
    server = start_server(*QUICK, "--load", "lazy", "--api-key-file", keys)
    assert Api(server)("GET", "/health")[0] == 503
    status, answer = Api(server)("GET", "/v1/models")
    assert status == 401 and answer["error"]["code"] == "invalid_api_key"
    assert Api(server, "wrong")("GET", "/state")[0] == 401
    assert Api(server, "a-secret")("GET", "/v1/models")[0] == 200
    from_environment = start_server(*QUICK, "--load", "lazy", env={"ROUSE_API_KEY": "other"})
    assert Api(from_environment)("GET", "/v1/models")[0] == 401
    assert Api(from_environment, "other")("GET", "/v1/models")[0] == 200
    refused = run_rouse("serve", "--api-key", "a-secret")
    assert refused.status == 2
    assert "--api-key-file" in refused.stderr and "a-secret" not in refused.stderr
    keys.chmod(0o644)
    readable = run_rouse("serve", "--api-key-file", keys)
    assert readable.status == 3 and "chmod 600" in readable.stderr


def test_a_lazy_server_loads_for_its_first_request(start_server):
    api = Api(start_server(*QUICK, "--load", "lazy"))
    assert api.models()[0]["layers"]["tokenizer"] == "absent"
    assert api("GET", "/health")[0] == 503
    assert api.chat()["usage"]["completion_tokens"] > 0
    assert api("GET", "/health")[0] == 200


def test_a_port_in_use_is_named(run_rouse, server):
    answer = run_rouse("serve", "--port", server.port)
    assert answer.status == 3
    assert "--port" in answer.stderr and str(server.port) in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize(("arguments", "word"), [
    (("--parallel", "2"), "parallel"),
    (("--context", "-1"), "context"),
    (("--cache-type-k", "q9"), "cache-type-k"),
    (("--flash-attn", "maybe"), "flash-attn"),
    (("--port", "70000"), "port"),
    (("--modle", "x"), "--model"),
    (("--model", "no-such-model"), "no-such-model"),
])
def test_a_wrong_flag_is_named_and_nothing_listens(run_rouse, arguments, word):
    answer = run_rouse("serve", "--port", "0", *arguments)
    assert answer.status == 2, answer.stderr
    assert word in answer.stderr
    assert answer.stdout == ""


def wait_until_refused(port: int) -> None:
    """Until nobody listens there any more; the test's time is the limit."""
    with pytest.raises(ConnectionRefusedError):
        while True:
            socket.create_connection(("127.0.0.1", port), timeout=WAIT_S).close()
            time.sleep(0.005)


def test_sigterm_finishes_what_runs_and_ends_with_0(api):
    with api.response("POST", "/v1/chat/completions",
                      chat_body(stream=True, max_tokens=200, ignore_eos=True)) as response:
        first = response.read1(100)
        api.server.process.send_signal(signal.SIGTERM)
        wait_until_refused(api.server.port)
        with socket.socket(fileno=os.dup(response.fileno())) as connection, \
                contextlib.suppress(BlockingIOError):
            waiting = connection.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            assert b"[DONE]" not in waiting, "it listened until the answer was whole"
        events = events_of((first + response.read()).decode())
    assert events[-1] == "[DONE]"
    assert events[-2]["timings"]["predicted_n"] == 200
    assert api.server.process.wait(20) == 0


def test_a_second_signal_ends_at_once(api):
    with api.response("POST", "/v1/chat/completions",
                      chat_body(stream=True, max_tokens=480, ignore_eos=True)) as response:
        response.read1(100)
        api.server.process.send_signal(signal.SIGTERM)
        wait_until_refused(api.server.port)
        assert api.server.process.poll() is None
        api.server.process.send_signal(signal.SIGTERM)
        assert api.server.process.wait(20) == 130
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            assert b"[DONE]" not in response.read()


def test_a_load_that_fails_is_told_to_the_first_chat_and_everywhere_else(start_server):
    api = Api(start_server("--threads", 1, "--context", 1_000_000_000, "--load", "lazy"))
    for _ in range(2):
        status, answer = api("POST", "/v1/chat/completions", chat_body())
        assert status == 503, answer
        assert "--context" in answer["error"]["message"]
        assert answer["error"]["type"] == "unavailable_error"
    model = api("GET", "/state")[1]["models"][0]
    assert model["state"] == "failed" and "--context" in model["failure"]
    assert "cannot load smollm2-135m" in api.server.stderr()
    assert api("POST", "/models/load", {"model": model["id"], "wait": True})[0] == 503


@contextlib.contextmanager
def frozen_thread(pid: int, name: str):
    """One thread of a process stands still, as in a call into the kernel that takes long."""
    libc = ctypes.CDLL(None, use_errno=True)
    seize, interrupt, wait_for_threads = 0x4206, 0x4207, 0x40000000
    thread = next(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()
                  if (task / "comm").read_text().strip() == name)
    if libc.ptrace(seize, thread, None, None) != 0:
        pytest.skip(f"no thread can be stopped here: {os.strerror(ctypes.get_errno())}")
    assert libc.ptrace(interrupt, thread, None, None) == 0
    os.waitpid(thread, wait_for_threads)
    try:
        yield
        os.waitpid(thread, wait_for_threads)  # else its process would not be gone for us either
    finally:
        libc.ptrace(0x11, thread, None, None)  # detach: it goes on, if it is there


def test_a_second_signal_ends_at_once_whatever_the_engine_is_doing(api):
    process = api.server.process
    with frozen_thread(process.pid, "rouse-engine"):
        process.send_signal(signal.SIGTERM)
        until = time.monotonic() + WAIT_S
        with contextlib.suppress(OSError):
            while True:
                socket.create_connection(("127.0.0.1", api.server.port), timeout=5).close()
                assert time.monotonic() < until
        time.sleep(0.5)  # it waits for the engine's thread now
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        watchdog = threading.Timer(10, process.kill)
        watchdog.start()
    watchdog.cancel()
    assert process.wait(5) == 130


def test_sigterm_while_loading_ends_with_0(start_server):
    for delay_s in (0, 0.02, 0.1):
        server = start_server(*QUICK)
        time.sleep(delay_s)
        assert server.stop() == 0, server.stderr()


def test_the_ready_line_is_the_only_line_on_stdout(api):
    assert set(api.server.ready) == {"schema", "host", "port", "pid", "model"}
    assert api.server.ready["pid"] == api.server.process.pid
    assert api.server.ready["model"] == "smollm2-135m"
    api.chat()
    assert api.server.stop() == 0
    assert api.server.process.stdout.read() == ""
    assert len(api.server.stderr().splitlines()) <= 3


def test_who_has_read_the_ready_line_finds_the_model(rouse, environment, free_port):
    # The line waits in a pipe that is full: all that must come before it has come.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"\n" * 512)
    os.set_blocking(writer, True)
    process = subprocess.Popen(
        [rouse, "serve", "--model", "smollm2-135m", "--load", "lazy", "--port", str(free_port)],
        stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.DEVNULL, env=environment)
    os.close(writer)
    models = []
    deadline = time.monotonic() + WAIT_S
    try:
        while not models and time.monotonic() < deadline:
            time.sleep(0.02)
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", free_port, timeout=WAIT_S)
                connection.request("GET", "/state")
                models = json.loads(connection.getresponse().read())["models"]
                connection.close()
        assert [model["id"] for model in models] == ["smollm2-135m"]
        with open(reader) as lines:
            line = next(line for line in lines if line.strip())
        assert json.loads(line)["model"] == "smollm2-135m"
    finally:
        process.kill()
        process.wait(WAIT_S)
