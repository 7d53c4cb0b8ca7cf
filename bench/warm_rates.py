"""What a warm `rouse serve` gives beside llama-server: first token, prompt and decode rates.

    ./dev bench warm_rates                           real model, 1B and 3B; about 15 minutes
    ./dev bench warm_rates --models real --rounds 5  less
    ./dev bench warm_rates --models real --beside 10 beside so many threads that never sleep
    ./dev bench warm_rates --write-docs              into docs/performance.md, from --results

All servers stand beside each other, loaded and idle; one is asked at a time, in seeded order within
each round, and all get the same prompts as token numbers, new in every round (no prefix is reused):
a short one of 12 tokens whose answer of 32 tokens gives TTFT and the decode rate (tokens after the
first, by the client's clock), and a long one of 128 whose TTFT gives the prompt rate. Both run the
same engine, so each is held against the other with the same layout of the weights: as they are in
the file (rouse's default, llama-server's best flags for an early token), and repacked for this
processor (`rouse serve --repack on`, llama-server's default).
"""
import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

from support import paired, running
from support.bench_models import MODELS, ROOT, ROUSE, machine, model_file
from support.cold_start_arms import llama_arms, rouse_arm, started
from support.cold_start_report import MODEL_TITLES
from support.raw_rows import recorded
from support.streams import ask, tokens, wait_ready

RESULTS = ROOT / "bench/results/warm_rates.jsonl"
DOCS = ROOT / "docs/performance.md"
BEGIN, END = "<!-- warm_rates: written by bench/warm_rates.py -->", "<!-- warm_rates: end -->"
SHORT, LONG, ANSWER = 12, 128, 32  # tokens
FIGURES = {"ttft_s": ("TTFT, 12 tokens", "ms", 1e3),
           "prompt_per_s": ("prompt, 128 tokens", "tokens/s", 1),
           "decode_per_s": ("decode, 32 tokens", "tokens/s", 1)}
LAYOUTS = {"as in the file": ("rouse", "llama-best"),
           "repacked": ("rouse-repacked", "llama-default")}


def measure(port: int, short: list[int], long: list[int], answer: int) -> dict:
    seen = ask(port, short, answer)
    first = ask(port, long, 1)[0] if long else None
    return {"ttft_s": seen[0], "decode_per_s": (len(seen) - 1) / (seen[-1] - seen[0]),
            "events": len(seen), "prompt_per_s": len(long) / first if long else None}


def arms_of(model: Path) -> dict:
    """Name -> (command, version). The context holds the long prompt and its answer."""
    ours = rouse_arm(ROUSE, model)
    found = {"rouse": (ours.new, ours.version),
             "rouse-repacked": ([*ours.new, "--repack", "on"], ours.version)}
    for arm in llama_arms(model):
        if arm.missing:
            raise SystemExit(arm.missing)
        found[arm.name] = (arm.new, arm.version)
    return found


@contextlib.contextmanager
def busy_threads(count: int):
    """Processes that use a core whenever they get one."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            busy = running.start([sys.executable, "-c", "while True: pass"])
            stack.callback(running.end, busy, signal.SIGKILL)
        yield


def run_model(name: str, options, out) -> None:
    model = model_file(name)
    rng = random.Random(f"{options.seed} {name}")
    with contextlib.ExitStack() as stack:
        ports = {}
        for arm, (command, version) in arms_of(model).items():
            ports[arm] = stack.enter_context(started(command, {}, Path(os.devnull)))
            out({"kind": "arm", "model": name, "arm": arm, "version": version})
        for port in ports.values():
            wait_ready(port)
        time.sleep(options.settle_s)  # what a server does when nobody waits
        stack.enter_context(busy_threads(options.beside))
        for number in range(-1, options.rounds):  # round -1 warms up and is not kept
            short, long = tokens(rng, SHORT), tokens(rng, 0 if options.smoke else LONG)
            order = list(ports)
            rng.shuffle(order)
            for arm in order:
                row = measure(ports[arm], short, long, 8 if options.smoke else ANSWER)
                if number >= 0 or options.smoke:
                    out({"kind": "attempt", "model": name, "round": number, "arm": arm, **row})
            print(f"{name}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def table(rows: list[dict]) -> list[str]:
    lines = ["| model | weights | figure | rouse serve | llama-server | rouse / llama-server |",
             "|---|---|---|---:|---:|---|"]
    attempts = [row for row in rows if row["kind"] == "attempt"]
    for model in dict.fromkeys(row["model"] for row in attempts):
        for layout, pair in LAYOUTS.items():
            for figure, (title, unit, factor) in FIGURES.items():
                ours, theirs = ([row[figure] for row in attempts
                                 if (row["model"], row["arm"]) == (model, arm)] for arm in pair)
                if None in ours:
                    continue
                # Of speeds: a rate is better when higher, a time when lower.
                estimate, low, high = paired.ratio(*(
                    (ours, theirs) if figure == "ttft_s" else (theirs, ours)))
                interval = "" if low is None else f" ({low:.3f} to {high:.3f})"
                lines.append(
                    f"| {MODEL_TITLES[model]} | {layout} | {title} | "
                    f"{statistics.median(ours) * factor:.1f} {unit} | "
                    f"{statistics.median(theirs) * factor:.1f} {unit} | {estimate:.3f}{interval} |")
    return lines


def runs_of(rows: list[dict]) -> list[tuple[dict, list[str]]]:
    """Each run's settings and models: results of several runs may stand in one file."""
    runs = []
    for row in rows:
        if row["kind"] == "settings":
            runs.append((row, []))
        elif row["kind"] == "arm" and row["model"] not in runs[-1][1]:
            runs[-1][1].append(row["model"])
    return runs


def write_docs(rows: list[dict]) -> None:
    runs = runs_of(rows)
    rounds = ", ".join(f"{settings['rounds']} ({', '.join(MODEL_TITLES[name] for name in models)})"
                       for settings, models in runs)
    versions = dict.fromkeys(row["version"] for row in rows if row["kind"] == "arm")
    text = "\n".join([
        BEGIN, "", *table(rows), "",
        f"Medians of so many rounds: {rounds}. A ratio is of speeds (above 1: rouse is faster), "
        "with its 95 % interval (Hodges-Lehmann on logarithms, pairs of one round). "
        f"Versions: {' · '.join(versions)}.", "",
        *(f"    ./dev bench warm_rates --models {','.join(models)} --rounds {settings['rounds']} "
          f"--seed {settings['seed']}" for settings, models in runs), "",
        f"Raw data: `bench/results/{RESULTS.name}`.", "", END])
    page = DOCS.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        page = f"{page.rstrip()}\n\n## Warm, beside llama-server\n\n{BEGIN}\n{END}\n"
    before, rest = page.split(BEGIN, 1)
    DOCS.write_text(before + text + rest.split(END, 1)[1], encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS),
                        help="of real, 1b, 3b")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--settle-s", type=float, default=10.0, help="pause after the loads")
    parser.add_argument("--beside", type=int, default=0, help="busy threads beside the servers")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the raw data goes")
    parser.add_argument("--write-docs", action="store_true",
                        help="measure nothing; write the table from --results")
    parser.add_argument("--smoke", action="store_true", help="the real model, once, short")
    options = parser.parse_args()
    for name in options.models:
        if name not in MODELS:
            parser.error(f"--models: no {name}; there are {', '.join(MODELS)}")
    if options.smoke:
        options.models, options.rounds, options.settle_s = ["real"], 0, 0.0
    return options


def main() -> int:
    options = parse()
    if options.write_docs:
        write_docs([json.loads(line) for line in options.results.read_text().splitlines()])
        return 0
    with recorded(options.results, keep=not options.smoke, merge=True) as (rows, out):
        out({"kind": "settings", "rounds": options.rounds, "seed": options.seed,
             "beside": options.beside,
             **machine()})
        for name in options.models:
            run_model(name, options, out)
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    running.main(main)
