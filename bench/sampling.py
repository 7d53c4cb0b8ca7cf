"""What do the samples within an attempt (lab/sampler.h) do to its time to first token?

The same three conditions are measured with sampling and without it, a run each in an order that is
drawn, many times. The attempts go into one imported run, where the n-th attempt of a condition in a
round makes a pair, and `rouse compare` says how much later the first token came with sampling. The
raw attempts' times are kept: --results.

    ./dev bench sampling                       12 rounds, about six minutes
    ./dev bench sampling --every 5ms
    ./dev bench sampling --smoke               one round of one condition
"""
import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from support import running
from support.bench_models import ROOT, ROUSE

PLAN = """
[experiment]
name = "sampling"
repeat = {repeat}
sample_every = "{every}"
[target]
kind = "builtin"
{model}
[[condition]]
name = "warm"
state = {{ process = "running", model = "loaded", page_cache = "warm", prefix_cache = "empty" }}
"""
OTHERS = """
[[condition]]
name = "process new"
base = "warm"
compound = true
state = { process = "new", model = "unloaded" }
[[condition]]
name = "page cache cold"
base = "process new"
state = { page_cache = "cold" }
"""


def rouse(*words, accepted=(0, 4)) -> str:
    answer = running.run([ROUSE, *words])
    if answer.returncode not in accepted:
        sys.exit(f"rouse {' '.join(map(str, words))}: {answer.stderr.strip()}")
    return answer.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=4, help="attempts of a condition in a round")
    parser.add_argument("--every", default="20ms")
    parser.add_argument("--model", help="a GGUF file (default: the built-in server's model)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/sampling.jsonl",
                        help="where the raw data goes")
    parser.add_argument("--smoke", action="store_true", help="one round; keeps nothing")
    given = parser.parse_args()
    if given.smoke:
        given.rounds, given.repeat = 1, 1
    draw = random.Random(given.seed)
    lines = []
    with tempfile.TemporaryDirectory(prefix="rouse-sampling-") as name:
        folder = Path(name)
        database = folder / "raw.sqlite"
        for number in range(given.rounds):
            for every in draw.sample([given.every, "0s"], 2):
                plan = folder / "plan.toml"
                model = f'model = "{Path(given.model).resolve()}"' if given.model else ""
                plan.write_text(PLAN.format(repeat=given.repeat, every=every, model=model)
                                + ("" if given.smoke else OTHERS), encoding="utf-8")
                told = rouse("measure", plan, "--json", "--seed", draw.randrange(1 << 30), "--db",
                             database)
                places: dict[str, int] = {}
                for each in json.loads(told)["attempts"]:
                    if each["prime"]:
                        continue
                    place = places[each["condition"]] = places.get(each["condition"], -1) + 1
                    arm = "sampled" if every != "0s" else "not sampled"
                    lines.append({
                        "condition": f"{each['condition']}, {arm}", "outcome": each["outcome"],
                        "ttft_ns": each["ttft_ns"], "block": number * given.repeat + place,
                        "position": len(lines), "counters": {
                            "sampler_cpu_ns": each["counters"].get("sampler_cpu_ns")}})
            print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
        raw = folder / "raw.jsonl"
        raw.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        if not given.smoke:
            given.results.write_text(raw.read_text(encoding="utf-8"), encoding="utf-8")
        both = folder / "both.sqlite"
        rouse("import", raw, "--db", both)
        for condition in ["warm"] + ([] if given.smoke else ["process new", "page cache cold"]):
            words = ["compare", f"1:{condition}, sampled", f"1:{condition}, not sampled", "--db",
                     both]
            if not given.smoke:
                words += ["--expect", "equal", "--margin", "2%"]
            print(rouse(*words, accepted=(0, 1, 4)))
        costs = sorted(line["counters"]["sampler_cpu_ns"] for line in lines
                       if line["counters"]["sampler_cpu_ns"])
        if costs:
            print(f"CPU time of sampling: median {costs[len(costs) // 2] / 1e6:.2f} ms an attempt")
    return 0


if __name__ == "__main__":
    running.main(main)
