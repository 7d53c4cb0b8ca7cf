"""What a start of `rouse serve` costs others: how much slower a decoding llama-server is while the
reader fills the page cache, and the memory that a start needs at its peak.

    ./dev bench side_effects                     about four minutes
    ./dev bench side_effects --rounds 3 --smoke  the real model only, for tests

Decoding: a llama-server generates without a pause. Beside it, in seeded order within each round,
nothing happens, or `rouse serve` loads an evicted file with its reader, or without it (then its
pages come by faults of the computing threads, once somebody asks). Tokens are counted at the client
for as long as the load with the reader took. Peak: VmHWM of each server after one short answer in a
new process; file pages that are mapped count in it, for all servers alike. Raw data: --results.
"""
import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import sys
import threading
import time
from pathlib import Path

from support import running
from support.bench_models import REAL, ROOT, ROUSE, rouse, scratch
from support.cold_start_arms import call, llama_arms, rouse_arm, started
from support.raw_rows import recorded
from support.streams import wait_ready

PROMPT = "Reply with one word: what colour is the sky?"


class Decoding:
    """A stream of tokens that never ends by itself, and how many have come."""

    def __init__(self, port):
        self.port, self.count, self.ended = port, 0, False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.ended:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            with contextlib.closing(connection):
                connection.request("POST", "/completion", json.dumps({
                    "prompt": PROMPT, "n_predict": 1000, "ignore_eos": True, "stream": True,
                    "cache_prompt": False}), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                while not self.ended and (line := answer.readline()):
                    self.count += line.startswith(b"data:")

    def rate_over(self, action, least_s):
        """Tokens a second while `action` runs, and no shorter than `least_s`."""
        count, begin = self.count, time.monotonic()
        action()
        took = time.monotonic() - begin
        time.sleep(max(0.0, least_s - took))
        return (self.count - count) / (time.monotonic() - begin), took


def evict(model):
    for _ in range(40):
        told = rouse("evict", model, check=False)
        if told.returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(told.stderr.strip())


def load(model, reader):
    """Loads the file in a new process, as far as it goes without a request."""
    command = [str(ROUSE), "serve", "--model", str(model), "--host", "127.0.0.1",
               "--port", "{port}", "--context", "2048", "--load", "eager", "--reader", reader]
    with started(command, {}, Path(os.devnull)) as port:
        def loaded():
            models = json.loads(call(port, "GET", "/state")[1]).get("models")
            return models and models[0]["state"] == "ready" and (
                reader == "off" or models[0].get("reader", {}).get("state") != "running")

        running.wait_for(loaded, f"{model.name} loaded")


def decoding(server_command, model, rounds, rng, out, least_s=3.0):
    with started(server_command, {}, Path(os.devnull)) as port:
        wait_ready(port)
        stream = Decoding(port)
        time.sleep(1)
        rows = []
        for number in range(rounds):
            order = ["nothing", "reader on", "reader off"]
            rng.shuffle(order)
            row = {"kind": "decoding", "round": number, "order": order}
            for what in order:
                evict(model)
                time.sleep(0.5)
                action = (lambda: None) if what == "nothing" else (
                    lambda what=what: load(model, what.split()[1]))
                rate, took = stream.rate_over(action, least_s)
                row[what] = {"tokens_per_s": rate, "load_s": took}
            rows.append(row)
            out(row)
        stream.ended = True
    return rows


def high_water(pid):
    tree = [pid]
    for each in tree:
        for task in Path(f"/proc/{each}/task").iterdir():
            tree += map(int, (task / "children").read_text().split())
    lines = [line for each in tree
             for line in Path(f"/proc/{each}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def peak(arm):
    """VmHWM of a new process after one answer. Found by its port's owner being our own child."""
    before = set(Path("/proc/self/task").glob("*/children"))
    with started(arm.new, arm.environment, Path(os.devnull)) as port:
        body = {"prompt": PROMPT, "max_tokens": 8, "n_predict": 8, "stream": False}
        running.wait_for(lambda: call(port, "POST", "/v1/completions", body)[0] == 200,
                         f"an answer of {arm.name}")
        children = [int(word) for path in before if path.exists()
                    for word in path.read_text().split()]
        return max(high_water(child) for child in children)


def summary(rows, peaks):
    if rows:
        print("| beside the decoding llama-server | its tokens/s, median | against nothing |")
        print("|---|---|---|")
        for what in ("nothing", "reader on", "reader off"):
            rates = [row[what]["tokens_per_s"] for row in rows]
            ratios = [row[what]["tokens_per_s"] / row["nothing"]["tokens_per_s"] for row in rows]
            print(f"| {what} | {statistics.median(rates):.1f} | {statistics.median(ratios):.3f} "
                  f"({min(ratios):.3f} to {max(ratios):.3f}) |")
        effect = [row["reader on"]["tokens_per_s"] / row["reader off"]["tokens_per_s"]
                  for row in rows]
        print(f"\nreader on / reader off, paired: median {statistics.median(effect):.3f} "
              f"({min(effect):.3f} to {max(effect):.3f}), n = {len(effect)}\n")
    print("| server | model | VmHWM after one answer | against llama-server, best flags |")
    print("|---|---|---|---|")
    for (model, arm), values in peaks.items():
        best = peaks.get((model, "llama-best"))
        ratio = f"{statistics.median(values) / statistics.median(best):.2f}" if best else ""
        print(f"| {arm} | {model} | {statistics.median(values) / 1e6:.0f} MB | {ratio} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, help="what is loaded (default: synthetic 1B)")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/side_effects.jsonl",
                        help="where the raw data goes")
    parser.add_argument("--smoke", action="store_true", help="the real model, one round")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with scratch("side-effects") as folder:
        big = options.model
        if options.smoke:
            # A copy, since the server that decodes holds the original mapped.
            big = folder / "copy.gguf"
            big.write_bytes(REAL.read_bytes())
            os.sync()
        elif big is None:
            big = folder / "1b.gguf"
            rouse("synth", big, "--like", "llama-1b", "--quant", "q4_0", "--vocab", "128k",
                  "--quiet")
        with recorded(options.results, keep=not options.smoke) as (_, out):
            arms = {arm.name: arm for arm in [rouse_arm(ROUSE, big), *llama_arms(big)]}
            if arms["llama-best"].missing:
                sys.exit(f"side_effects: {arms['llama-best'].missing}")
            # One thread: with as many as cores its barriers spin, and any neighbour at all, the
            # client included, makes its rate jump by a factor of 20.
            command = [word if word != str(big) else str(REAL)
                       for word in [*arms["llama-best"].new, "-t", "1"]]
            smoke = {"rounds": 1, "least_s": 0.5}
            rows = decoding(command, big, rng=rng, out=out,
                            **(smoke if options.smoke else {"rounds": options.rounds}))
            peaks = {}
            for _ in range(1 if options.smoke else 3):
                for name, arm in rng.sample(sorted(arms.items()), len(arms)):
                    value = peak(arm)
                    peaks.setdefault((big.stem, name), []).append(value)
                    out({"kind": "peak", "arm": name, "model": big.stem,
                         "vm_hwm_bytes": value})
    summary(rows, peaks)


if __name__ == "__main__":
    running.main(main)
