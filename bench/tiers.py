"""What each tier of `rouse serve` holds in memory, and what it costs to wake from.

    ./dev bench tiers                   the synthetic 1B, ten rounds; about two minutes
    ./dev bench tiers --model real
    ./dev bench tiers --smoke           the real model, once

One server. In each round, in seeded order, it is loaded and idle, asleep or unloaded, the latter
two with its file cached and with its file evicted (`rouse evict`, which proves it); then it gets a
prompt of 12 tokens, new each time, and the time to its first token is taken by the client's clock.
Memory is what `GET /state` told for the tier. Raw data: --results.
"""
import argparse
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path

from support import paired, running
from support.bench_models import MODELS, ROOT, ROUSE, machine, model_file, rouse
from support.cold_start_arms import call, rouse_arm, started
from support.raw_rows import recorded
from support.streams import ask, tokens, wait_ready

RESULTS = ROOT / "bench/results/tiers.jsonl"
TIERS = {"ready": None, "asleep": "/models/sleep", "unloaded": "/models/unload"}
STARTS = [("ready", "cached"), ("asleep", "cached"), ("asleep", "evicted"), ("unloaded", "cached"),
          ("unloaded", "evicted")]
PROMPT = 12  # tokens


def state_of(port: int) -> dict:
    return json.loads(call(port, "GET", "/state")[1])["models"][0]


def reach(port: int, tier: str) -> dict:
    """The model's state once it is in that tier."""
    path = TIERS[tier]
    if path:
        status, text = call(port, "POST", path, {"model": state_of(port)["id"]})
        if status not in (200, 202):
            raise RuntimeError(f"POST {path}: status {status}: {text.decode()}")
    deadline = time.monotonic() + 30
    while (state := state_of(port))["state"] != tier:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the model is {state['state']} and not {tier} after 30 s")
        time.sleep(0.01)
    return state


def evict(model: Path) -> None:
    """A page that somebody reads this moment stays: again, then."""
    for _ in range(40):
        told = rouse("evict", model, check=False)
        if told.returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(told.stderr.strip())


def measure(port: int, model: Path, tier: str, file: str, rng: random.Random) -> dict:
    state = reach(port, tier)
    if file == "evicted":
        evict(model)
    return {"tier": tier, "file": file, "process_bytes": state["tiers"][tier]["process_bytes"],
            "ttft_s": ask(port, tokens(rng, PROMPT), 1)[0]}


def table(rows: list[dict]) -> list[str]:
    lines = ["| tier | file | memory of the process | first token | against ready |",
             "|---|---|---:|---:|---|"]
    attempts = [row for row in rows if row["kind"] == "attempt"]
    times = {start: [row["ttft_s"] for row in attempts if (row["tier"], row["file"]) == start]
             for start in STARTS}
    for (tier, file), seconds in times.items():
        memory = statistics.median(row["process_bytes"] for row in attempts if row["tier"] == tier)
        estimate, low, high = paired.ratio(times["ready", "cached"], seconds)
        interval = "" if low is None else f" ({low:.2f} to {high:.2f})"
        ratio = "" if tier == "ready" else f"{estimate:.2f}{interval}"
        lines.append(f"| {tier} | {file} | {memory / 1e6:.0f} MB | "
                     f"{statistics.median(seconds) * 1e3:.0f} ms | {ratio} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="1b")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the raw data goes")
    parser.add_argument("--smoke", action="store_true", help="the real model, one round")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.rounds = "real", 1
    model = model_file(options.model)
    rng = random.Random(options.seed)
    arm = rouse_arm(ROUSE, model)
    with (recorded(options.results, keep=not options.smoke) as (rows, out),
          started(arm.new, {}, Path(os.devnull)) as port):
        out({"kind": "settings", "model": options.model, "rounds": options.rounds,
             "seed": options.seed, "version": arm.version, **machine()})
        wait_ready(port)
        ask(port, tokens(rng, PROMPT), 1)  # the first answer of a process makes its context
        for number in range(options.rounds):
            for tier, file in rng.sample(STARTS, len(STARTS)):
                out({"kind": "attempt", "round": number, **measure(port, model, tier, file, rng)})
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    running.main(main)
