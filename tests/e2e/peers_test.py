"""rouse probe on real servers: what it concludes must hold on bytes that nobody here has written.

- llama-server: C++, cpp-httplib, built from the engine's own source;
- llama-cpp-python's server: FastAPI and sse-starlette on the same engine;
- mistral.rs: another engine (Rust, candle) on the same model file.

Each is started here on a free port. One that ./dev could not set up is skipped with the reason.
"""
import http.client
import json
import os
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest

READY_TIMEOUT_S = 120
MAX_TOKENS = 8
PROMPT = "Count from one to twenty."
ORDER = ["send_start", "connected", "request_sent", "response_headers", "first_byte", "first_event",
         "first_token", "first_content", "last_token", "end"]
SERVERS = ["llama-server", "llama-cpp-python", "mistral.rs"]


def from_environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        reason = os.environ.get(f"{name}_MISSING") or os.environ.get("ROUSE_PEERS_MISSING")
        pytest.skip(f"{name}: {reason or 'not set; ./dev test sets it'}")
    return value


def command_of(name: str, model: Path, port: int) -> tuple[list[str], dict]:
    """How to start a server, and what is added to its environment."""
    if name == "llama-server":
        return [from_environment("ROUSE_LLAMA_SERVER"), "-m", str(model), "--port", str(port),
                "-c", "1024", "-np", "1", "-t", "1", "--no-webui"], {}
    python = from_environment("ROUSE_PEERS_PYTHON")
    if name == "llama-cpp-python":
        package = from_environment("ROUSE_LLAMA_CPP_PYTHON")
        return [python, "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1",
                "--port", str(port), "--n_ctx", "1024"], {"PYTHONPATH": package}
    script = Path(__file__).parent / "peers" / "mistralrs_server.py"
    return [python, str(script), str(model), str(port)], {}


def answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def end_process(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


class Peer:
    """A server that answers, on 127.0.0.1."""

    def __init__(self, name: str, port: int):
        self.name = name
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def stamps(self, body: dict) -> dict:
        """An independent client: Python's http.client. Seconds after the request began, of the
        headers, the first event with text and the end; and the number of events with text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        start = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        found = {"headers": time.monotonic() - start, "first_text": None, "texts": 0, "text": ""}
        for line in response:
            now = time.monotonic() - start
            data = line.decode().strip().removeprefix("data:").strip()
            if not data.startswith("{"):
                continue
            for choice in json.loads(data).get("choices", []):
                text = choice["delta"].get("content")
                if text:
                    found["first_text"] = found["first_text"] or now
                    found["texts"] += 1
                    found["text"] += text
        found["end"] = time.monotonic() - start
        connection.close()
        return found


@pytest.fixture(scope="module", params=SERVERS)
def peer(request, model, tmp_path_factory, free_ports):
    port = free_ports()
    command, more = command_of(request.param, model, port)
    log = tmp_path_factory.mktemp("peer") / "server.log"
    with open(log, "wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                                   env={**os.environ, **more})
    try:
        path = "/v1/models" if request.param == "llama-cpp-python" else "/health"
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not answers(port, path):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{request.param} did not come up (status {process.poll()}):\n"
                            + log.read_text(errors="replace")[-4000:])
            time.sleep(0.1)
        yield Peer(request.param, port)
    finally:
        end_process(process)


def test_a_chat_is_measured_to_its_end(run_rouse, peer):
    answer = run_rouse("probe", peer.url, "--prompt", PROMPT, "--max-tokens", MAX_TOKENS, "--json")
    assert answer.status == 0, answer.stdout + answer.stderr
    attempt = answer.json()
    assert attempt["outcome"] == "ok", attempt["outcome_detail"]
    assert attempt["http_status"] == 200
    assert attempt["first_token_channel"] == "content"
    marks = [attempt["marks_ns"][name] for name in ORDER]
    assert None not in marks
    assert marks == sorted(marks)
    assert attempt["ttft_ns"] == attempt["ttfc_ns"] == attempt["marks_ns"]["first_token"]
    # Structural events are no tokens: all servers here open with a role and end with a finish.
    stream = attempt["stream"]
    assert 1 <= stream["token_events"] <= MAX_TOKENS
    assert stream["events"] > stream["token_events"]
    assert stream["reads"] >= 2
    codes = [warning["code"] for warning in attempt["warnings"]]
    assert codes == [], attempt["warnings"]
    if peer.name == "llama-server":
        assert attempt["tokens"]["completion"] == MAX_TOKENS
        assert attempt["tokens"]["prompt"] > 5
        assert attempt["server"]["timings"]["predicted_n"] == MAX_TOKENS


def test_events_and_text_are_those_that_another_client_sees(run_rouse, peer, tmp_path):
    body = {"model": "default", "messages": [{"role": "user", "content": PROMPT}], "stream": True,
            "max_tokens": MAX_TOKENS, "temperature": 0}
    seen = peer.stamps(body)
    events = tmp_path / "events.jsonl"
    answer = run_rouse("probe", peer.url, "--prompt", PROMPT, "--max-tokens", MAX_TOKENS, "--json",
                       "--events", events)
    attempt = answer.json()
    assert seen["texts"] == attempt["stream"]["token_events"]
    # The other client's order of marks, and no time: this one may be preempted.
    assert seen["headers"] <= seen["first_text"] <= seen["end"]
    tokens = [json.loads(line) for line in events.read_text().splitlines()]
    tokens = [line for line in tokens if line["kind"] == "event" and line["class"] == "token"]
    assert len(tokens) == seen["texts"]
    assert tokens[0]["time_ns"] == attempt["ttft_ns"]


def test_a_refused_request_is_an_outcome_with_the_servers_words(run_rouse, peer):
    answer = run_rouse("probe", peer.url + "/no/such/path/v1/chat/completions", "--json")
    attempt = answer.json()
    assert answer.status == 3
    assert attempt["outcome"] == "http_error"
    assert attempt["http_status"] == 404
    assert attempt["ttft_ns"] is None


def decoded(port: int) -> int:
    """How many tokens llama-server has made of the answer that it is at."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/slots", timeout=20) as answer:
        [slot] = json.load(answer)
    return slot["next_token"][0]["n_decoded"] if slot["is_processing"] else 0


def test_a_real_server_that_dies_in_the_middle_is_truncated(run_rouse, model, free_port, tmp_path):
    command, more = command_of("llama-server", model, free_port)
    with open(tmp_path / "log", "wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                                   env={**os.environ, **more})
    try:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not answers(free_port, "/health") and time.monotonic() < deadline:
            time.sleep(0.1)
        found = {}

        def probe():
            found["answer"] = run_rouse("probe", f"http://127.0.0.1:{free_port}", "--prompt",
                                        "Write a long story.", "--max-tokens", 900, "--json")

        thread = threading.Thread(target=probe)
        thread.start()
        while decoded(free_port) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)  # 900 tokens take seconds
        process.kill()
        thread.join(60)
        attempt = found["answer"].json()
        assert attempt["outcome"] == "truncated", attempt
        last = attempt["marks_ns"]["last_token"]
        assert last is None or attempt["marks_ns"]["end"] >= last
    finally:
        end_process(process)
