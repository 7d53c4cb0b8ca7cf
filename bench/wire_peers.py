"""Our TTFT error beside that of two public load tools, on one scripted server in one run.

    python3 bench/wire_peers.py --rouse build/release/rouse [--aiperf DIR/bin/aiperf]
                                [--llama-benchy DIR/bin/llama-benchy] [--requests 20]

Each tool is installed by its user (pip install aiperf==0.13.0; pip install llama-benchy==0.4.0) and
needs `transformers` for the word tokenizer that is made here, so that nothing is downloaded. The
server waits a fixed time, streams role, tokens and finish, and stamps its own sends with the
machine's monotonic clock; a tool's error is its median TTFT minus the server's median time from the
request's last byte to the first token's send. That includes connecting and sending, some 0.1 ms.
No part of the tests: it needs tools from elsewhere, and prints numbers, not verdicts.
"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from support import running
from support.bench_models import ROUSE

TOOL_S = 300
DELAY_S = 0.1
TOKENS = 8
GAP_S = 0.01
BOOK = ("word " * 60 + "end. ") * 400


class Server:
    """A process of its own, with real-time priority where that is allowed: what a busy machine
    delays is then the client. One thread a connection; knows POST (a chat), and answers any GET
    with a book or a model."""

    def __init__(self, work):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.stamps = tempfile.NamedTemporaryFile("a+", dir=work)
        self.pid = os.fork()
        if self.pid == 0:
            running.die_with_parent()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            except PermissionError:
                pass
            self.accept()

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.listener.close()

    def own_times(self):
        self.stamps.seek(0)
        return [float(line) for line in self.stamps]

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        data = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(65536)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                               if line.lower().startswith(b"content-length:")), 0)
                while len(data) < length:
                    data += connection.recv(65536)
                body, data = data[:length], data[length:]
                if head.startswith(b"POST"):
                    self.chat(connection, json.loads(body))
                else:
                    self.get(connection, head.split()[1].decode())

    @staticmethod
    def get(connection, path):
        models = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]})
        text = (BOOK if "book" in path else models).encode()
        kind = b"text/plain" if "book" in path else b"application/json"
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
                           % (kind, len(text), text))

    def chat(self, connection, body):
        received = time.monotonic_ns()
        if not body.get("stream"):  # a warm-up
            message = {"index": 0, "message": {"role": "assistant", "content": "word"},
                       "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
            text = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                               "choices": [message], "usage": usage}).encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
            return

        def event(delta, finish=None):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            value = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                     "choices": [choice]}
            return send(f"data: {json.dumps(value)}\n\n")

        def send(text):
            stamp = time.monotonic_ns()
            connection.sendall(b"%x\r\n%s\r\n" % (len(text), text.encode()))
            return stamp

        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n")
        event({"role": "assistant", "content": ""})
        time.sleep(DELAY_S)
        ttft_ms = (event({"content": "word "}) - received) / 1e6
        os.write(self.stamps.fileno(), f"{ttft_ms}\n".encode())
        for _ in range(TOKENS - 1):
            time.sleep(GAP_S)
            event({"content": "word "})
        event({}, "stop")
        prompt = len(str(body)) // 5
        usage = {"prompt_tokens": prompt, "completion_tokens": TOKENS,
                 "total_tokens": prompt + TOKENS}
        last = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [], "usage": usage}
        send(f"data: {json.dumps(last)}\n\n")
        send("data: [DONE]\n\n")
        connection.sendall(b"0\r\n\r\n")


TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = ["<unk>", "<s>", "</s>", "word", "end", ".", "a", "the"] + [f"w{i}" for i in range(2000)]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>",
                               eos_token="</s>", pad_token="</s>")
fast.save_pretrained(sys.argv[1])
"""


def run(command, log):
    with open(log, "wb") as stream:
        process = running.start(command, stdout=stream, stderr=stream)
        try:
            process.wait(TOOL_S)
        except subprocess.TimeoutExpired:
            stream.write(f"\nended after {TOOL_S} s\n".encode())
        finally:
            running.end(process)


def rouse(program, server, requests, work):
    values = []
    with open(work / "rouse.log", "w", encoding="utf-8") as log:
        for _ in range(requests):
            answer = running.run([program, "probe", f"http://127.0.0.1:{server.port}", "--json"])
            if answer.returncode == 0:
                values.append(json.loads(answer.stdout)["ttft_ns"] / 1e6)
            else:
                log.write(answer.stdout + answer.stderr)
    return values


def aiperf(program, server, requests, work):
    run([program, "profile", "-m", "m", "--url", f"http://127.0.0.1:{server.port}",
         "--endpoint-type", "chat", "--streaming", "--tokenizer", work / "tokenizer",
         "--request-count", requests, "--concurrency", 1, "--isl", 50, "--osl", TOKENS, "--ui",
         "none", "--artifact-dir", work / "aiperf"], work / "aiperf.log")
    values = []
    for file in (work / "aiperf").rglob("profile_export.jsonl"):
        for line in file.read_text().splitlines():
            metric = json.loads(line).get("metrics", {}).get("time_to_first_token")
            if metric:
                values.append(metric["value"])
    return values


def llama_benchy(program, server, requests, work):
    result = work / "benchy.json"
    run([program, "--base-url", f"http://127.0.0.1:{server.port}/v1", "--model", "m",
         "--tokenizer", work / "tokenizer", "--pp", 64, "--tg", TOKENS, "--runs", requests,
         "--latency-mode", "none", "--no-warmup", "--skip-coherence", "--book-url",
         f"http://127.0.0.1:{server.port}/book", "--format", "json", "--save-result", result],
        work / "llama_benchy.log")
    if not result.exists():
        return []
    values = []
    for row in json.loads(result.read_text()).get("benchmarks", []):
        for name in ("e2e_ttft", "ttfr", "est_ppt"):
            if isinstance(row.get(name), dict) and row[name].get("values"):
                values = values or [float(value) for value in row[name]["values"]]
    return values


def measure(name, function, program, requests, work):
    """Prints the tool's row; false when it told nothing."""
    server = Server(work)
    try:
        values = function(program, server, requests, work)
    finally:
        server.end()
    own = server.own_times()
    if not values or not own:
        log = work / f"{name}.log"
        said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        print(f"{name}: no TTFT was told\n{said}", file=sys.stderr)
        return False
    told, own = statistics.median(values), statistics.median(own)
    print(f"| {name} | {len(values)} | {told:.2f} ms | {own:.2f} ms | {told - own:+.2f} ms | "
          f"{max(values) - own:+.2f} ms |", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rouse", default=ROUSE)
    parser.add_argument("--aiperf")
    parser.add_argument("--llama-benchy", dest="llama_benchy")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--smoke", action="store_true", help="three requests")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.requests = 3
    with tempfile.TemporaryDirectory(prefix="rouse-wire-peers-") as folder:
        return compare(arguments, Path(folder))


def compare(arguments, work):
    for tool in (arguments.llama_benchy, arguments.aiperf):
        if tool and not (work / "tokenizer").exists():
            run([Path(tool).parent / "python", "-c", TOKENIZER, work / "tokenizer"],
                work / "tokenizer.log")
    print("| client | n | its median TTFT | the server's own | error, median | error, largest |")
    print("|---|---|---|---|---|---|")
    told = [measure(name, function, getattr(arguments, name), arguments.requests, work)
            for name, function in (("rouse", rouse), ("aiperf", aiperf),
                                   ("llama_benchy", llama_benchy)) if getattr(arguments, name)]
    return 0 if all(told) else 1


if __name__ == "__main__":
    running.main(main)
