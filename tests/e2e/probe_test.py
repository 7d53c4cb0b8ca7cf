"""`rouse probe`: marks, outcomes, exit statuses, --events, and what must never be printed."""
import json
import signal
import socket
import subprocess
import threading
import time

import pytest

HEAD = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n")
LAST = b"0\r\n\r\n"


def chunk(text: str) -> bytes:
    data = text.encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def delta(content=None, finish=None, **more) -> str:
    message = {"choices": [{"index": 0, "delta": {"content": content, **more},
                            "finish_reason": finish}]}
    return f"data: {json.dumps(message)}\n\n"


DONE = "data: [DONE]\n\n"
# Gaps that a client which waits for a core sees as gaps.
OK_STREAM = [HEAD + chunk(delta(role="assistant")), 0.5, chunk(delta("Blue")), 0.5,
             chunk(delta(".")), 0.5,
             chunk(delta(finish="stop") + 'data: {"choices":[],"usage":{"prompt_tokens":9,'
                   '"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
                   + DONE) + LAST]


class Scripted:
    """A server that reads one request a connection and plays the steps: bytes to send, or seconds
    to pause. Keeps the requests that it got."""

    def __init__(self, steps, address=("127.0.0.1", 0), family=socket.AF_INET):
        self.steps = steps
        self.requests = []
        self.listener = socket.socket(family)
        self.listener.bind(address)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.play, args=(connection,), daemon=True).start()

    def play(self, connection):
        with connection:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            head, _, body = data.partition(b"\r\n\r\n")
            length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                          if line.lower().startswith(b"content-length"))
            while len(body) < length:
                body += connection.recv(65536)
            self.requests.append((head.decode(), json.loads(body)))
            for step in self.steps:
                if isinstance(step, bytes):
                    connection.sendall(step)
                else:
                    time.sleep(step)


@pytest.fixture
def scripted():
    servers = []

    def start(steps, **options):
        servers.append(Scripted(steps, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.listener.close()


def test_a_good_answer_gives_an_attempt_with_marks_in_order(run_rouse, scripted):
    server = scripted(OK_STREAM)
    answer = run_rouse("probe", server.url, "--json", "--model", "m", "--max-tokens", 5)
    assert answer.status == 0, answer.stderr
    attempt = answer.json()
    assert attempt["schema"] == "rouse.attempt/1"
    assert attempt["outcome"] == "ok"
    assert attempt["api"] == "openai-chat"
    assert attempt["http_status"] == 200
    marks = attempt["marks_ns"]
    names = ["send_start", "connected", "request_sent", "response_headers", "first_byte",
             "first_event", "first_token", "first_content", "last_token", "end"]
    assert [marks[name] for name in names] == sorted(marks[name] for name in names)
    assert marks["send_start"] == 0
    assert attempt["ttft_ns"] == marks["first_token"] >= 500_000_000
    assert marks["first_token"] > marks["first_event"]
    assert attempt["ttfc_ns"] == marks["first_content"]
    assert attempt["first_token_channel"] == "content"
    assert attempt["tokens"] == {"prompt": 9, "cached": 4, "completion": 2, "first_chunk": 1}
    assert attempt["stream"]["events"] == 6
    assert attempt["stream"]["token_events"] == 2
    assert attempt["stream"]["coalesced"] is False
    assert attempt["connection"]["family"] == "ipv4"
    assert attempt["connection"]["reused"] is False
    stages = [value for value in attempt["stages_ns"].values() if value is not None]
    assert sum(stages) == attempt["ttft_ns"]
    assert attempt["warnings"] == []
    [(head, body)] = server.requests  # and nothing else was asked
    assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert "Accept-Encoding: identity" in head
    assert body["model"] == "m"
    assert body["max_tokens"] == 5
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_a_person_gets_the_answer_first_in_80_columns(run_rouse, scripted):
    answer = run_rouse("probe", scripted(OK_STREAM).url)
    assert answer.status == 0
    lines = answer.stdout.splitlines()
    assert lines[0].startswith("First token after ")
    assert "(content)" in lines[0]
    assert max(map(len, lines)) <= 80
    assert "Blue." in answer.stdout
    assert "\033" not in answer.stdout


@pytest.mark.parametrize(("base", "api", "path"), [
    ("", "openai-completions", "/v1/completions"), ("/v1", "openai-chat", "/v1/chat/completions"),
    ("/v1/", "openai-responses", "/v1/responses"), ("/v1", "anthropic", "/v1/messages"),
    ("/v1", "ollama-chat", "/api/chat"), ("/api", "ollama-generate", "/api/generate"),
    ("/proxy", "llama-completion", "/proxy/completion")])
def test_a_base_gets_the_apis_path(run_rouse, scripted, base, api, path):
    server = scripted([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
    answer = run_rouse("probe", server.url + base, "--api", api, "--json")
    assert answer.status == 3
    assert answer.json()["api"] == api
    assert answer.json()["outcome"] == "no_token"
    assert server.requests[0][0].startswith(f"POST {path} HTTP/1.1\r\n")


def test_a_full_endpoint_selects_its_api(run_rouse, scripted):
    server = scripted([HEAD + LAST])
    url = server.url + "/api/chat?x=1"
    assert run_rouse("probe", url, "--json").json()["api"] == "ollama-chat"
    assert server.requests[0][0].startswith("POST /api/chat?x=1 HTTP/1.1\r\n")
    assert run_rouse("probe", url, "--api", "anthropic").status == 2
    assert len(server.requests) == 1


@pytest.mark.parametrize(("steps", "outcome", "words"), [
    ([b"HTTP/1.1 503 Busy\r\nContent-Length: 29\r\n\r\n" + b'{"error":{"message":"Loading"}}'[:29]],
     "http_error", "503"),
    ([HEAD + chunk('data: {"error":{"message":"out of memory"}}\n\n') + LAST],
     "stream_error", "out of memory"),
    ([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"],
     "malformed", "foreign"),
    ([HEAD + chunk(delta(role="assistant"))], "truncated", "0 token events"),
    ([HEAD + chunk(delta(finish="stop") + DONE) + LAST], "no_token", "without a token"),
    ([HEAD[:40]], "truncated", "header block"),
    ([b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"], "http_error", "/x"),
])
def test_without_a_first_token_the_status_is_3_and_the_attempt_is_printed(
        run_rouse, scripted, steps, outcome, words):
    url = scripted(steps).url
    answer = run_rouse("probe", url, "--json")
    assert answer.status == 3
    attempt = answer.json()
    assert attempt["outcome"] == outcome
    assert words in attempt["outcome_detail"]
    assert attempt["ttft_ns"] is None
    assert attempt["marks_ns"]["first_token"] is None
    human = run_rouse("probe", url)
    assert human.status == 3
    assert human.stdout.startswith(f"No first token: {outcome}\n")


def test_a_token_before_an_error_still_is_a_first_token(run_rouse, scripted):
    answer = run_rouse("probe", scripted([HEAD + chunk(delta("x"))]).url, "--json")
    assert answer.json()["outcome"] == "truncated"
    assert answer.json()["ttft_ns"] is not None
    assert answer.status == 0


def test_a_refused_connection_is_an_attempt_too(run_rouse, free_port):
    answer = run_rouse("probe", f"http://127.0.0.1:{free_port}", "--json")
    assert answer.status == 3
    assert answer.json()["outcome"] == "connect_error"
    assert answer.json()["stream"]["events"] is None


def test_the_first_token_timeout_is_named(run_rouse, scripted):
    url = scripted([HEAD + chunk(delta(role="assistant")), 20.0]).url
    answer = run_rouse("probe", url, "--json", "--timeout-first-token", "200ms")
    attempt = answer.json()
    assert attempt["outcome"] == "timeout"
    assert "first token timeout after 200 ms" in attempt["outcome_detail"]
    assert 200_000_000 <= attempt["marks_ns"]["end"] < 10_000_000_000
    assert answer.status == 3


def test_a_unix_socket_is_spoken_to(run_rouse, scripted, tmp_path):
    path = str(tmp_path / "s.sock")
    scripted(OK_STREAM, address=path, family=socket.AF_UNIX)
    answer = run_rouse("probe", f"unix:{path}", "--json")
    assert answer.status == 0, answer.stdout
    assert answer.json()["connection"]["family"] == "unix"
    reason = answer.json()["null_reasons"]["client_read_delay_ns"]
    assert "Unix" in reason


def test_events_hold_every_read_and_event(run_rouse, scripted, tmp_path):
    path = tmp_path / "events.jsonl"
    answer = run_rouse("probe", scripted(OK_STREAM).url, "--json", "--events", path)
    assert answer.status == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all({"time_ns", "bytes", "kind"} <= line.keys() for line in lines)
    times = [line["time_ns"] for line in lines]
    assert times == sorted(times)
    reads = [line for line in lines if line["kind"] == "read"]
    assert "".join(line["data"] for line in reads).encode() == b"".join(
        step for step in OK_STREAM if isinstance(step, bytes))
    assert len(reads) == answer.json()["stream"]["reads"]
    events = [line for line in lines if line["kind"] == "event"]
    assert len(events) == answer.json()["stream"]["events"]
    first = next(line for line in events if line["class"] == "token")
    assert first["time_ns"] == answer.json()["ttft_ns"]


def test_an_events_file_that_cannot_be_written_costs_no_request(run_rouse, scripted, tmp_path):
    server = scripted(OK_STREAM)
    answer = run_rouse("probe", server.url, "--events", tmp_path / "no" / "such" / "folder")
    assert answer.status == 3
    assert server.requests == []


def test_secrets_are_sent_but_never_shown(run_rouse, scripted, tmp_path):
    secret = "sk-0123456789abcdef"
    echo = json.dumps({"error": {"message": f"key {secret} is wrong"}}).encode()
    server = scripted([b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(echo), echo)])
    path = tmp_path / "events.jsonl"
    for format_flags in (["--json"], []):
        answer = run_rouse("probe", server.url + "?key=" + secret, "--header",
                           f"Authorization: Bearer {secret}", "--events", path, *format_flags)
        assert answer.status == 3
        assert secret not in answer.stdout + answer.stderr + path.read_text()
    assert f"Authorization: Bearer {secret}" in server.requests[0][0]
    wrong = run_rouse("probe", server.url, "--header", secret)
    assert wrong.status == 2
    assert secret not in wrong.stderr


@pytest.mark.parametrize("arguments", [
    [], ["nonsense"], ["ftp://127.0.0.1/"], ["http://127.0.0.1:1", "--max-tokens", "0"],
    ["http://127.0.0.1:1", "--max-tokens", "x"], ["http://127.0.0.1:1", "--timeout", "5"],
    ["http://127.0.0.1:1", "--timeout", "0s"], ["http://127.0.0.1:1", "--api", "openai-chad"],
    ["http://127.0.0.1:1", "--header", "novalue"], ["http://127.0.0.1:1", "--no-such-flag"],
    ["http://127.0.0.1:1", "--prompt", "a", "--prompt-file", "/dev/null"],
    ["http://user:pw@127.0.0.1:1"]])
def test_a_mistake_in_the_command_is_status_2_and_sends_nothing(run_rouse, arguments):
    answer = run_rouse("probe", *arguments)
    assert answer.status == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("rouse: ")


def test_a_wrong_api_name_gets_the_nearest_one(run_rouse):
    answer = run_rouse("probe", "http://127.0.0.1:1", "--api", "openai-chad")
    assert "did you mean openai-chat" in answer.stderr


def test_help_ends_with_an_example(run_rouse):
    answer = run_rouse("probe", "--help")
    assert answer.status == 0
    assert answer.stdout.rstrip().splitlines()[-1].startswith("Example: rouse probe ")


def test_a_server_cannot_steer_the_terminal(run_rouse, scripted):
    evil = delta("\033[31mred\u009b0m\nnext")
    stream = [HEAD + chunk(evil + delta(finish="stop") + DONE) + LAST]
    answer = run_rouse("probe", scripted(stream).url)
    assert answer.status == 0
    assert "\033" not in answer.stdout
    assert "\u009b" not in answer.stdout


def test_an_interrupt_ends_it_with_130_and_prints_the_attempt(rouse, environment, scripted):
    server = scripted([HEAD, 30.0])
    process = subprocess.Popen([str(rouse), "probe", server.url, "--json"], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 20
    while not server.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(out)["outcome"] == "interrupted"
