"""A completion as a client of the benchmarks asks for it: a prompt of token numbers, and the times
at which its tokens came."""
import http.client
import json
import random
import time

from support import running
from support.cold_start_arms import call


def tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(1000, 40000) for _ in range(count)]


def ask(port: int, prompt: list[int], answer: int) -> list[float]:
    """Seconds from the send to each event of the stream that brought a token."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    body = json.dumps({"prompt": prompt, "max_tokens": answer, "n_predict": answer, "stream": True,
                       "temperature": 0, "ignore_eos": True, "cache_prompt": False})
    connection.connect()
    begin = time.perf_counter()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    stream = connection.getresponse()
    if stream.status != 200:
        raise RuntimeError(f"status {stream.status}: {stream.read().decode()}")
    seen = []
    while line := stream.readline():
        if line.startswith(b"data: {"):
            now = time.perf_counter() - begin
            choice = json.loads(line[6:])["choices"]
            if choice and not choice[0].get("finish_reason"):
                seen.append(now)
    connection.close()
    return seen


def wait_ready(port: int) -> None:
    running.wait_for(lambda: call(port, "GET", "/health")[0] == 200, "a server that is ready")
