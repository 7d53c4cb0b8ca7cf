"""How fast is the report page of many attempts: written, opened, filtered?

A run of N attempts is made of real ones: each is a copy of an attempt that `rouse measure` made,
with its own id, place and a TTFT varied by its condition's spread; every thousandth failed. Then
`rouse report --html` writes it, and Debian's Chromium opens it from file://, several times each.
Printed: one JSON line per measurement and a table. The lines are kept: --results.

    ./dev bench report_page                    10,000 attempts, about two minutes
    ./dev bench report_page --attempts 1000 --rounds 9
    ./dev bench report_page --smoke            50 attempts, once
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support import running
from support.bench_models import ROOT, ROUSE

NODE = os.environ.get("ROUSE_NODE") or shutil.which("node")
MODULES = os.environ.get("ROUSE_NODE_MODULES") or str(ROOT / "web" / "node_modules")
LIMITS_MS = {"written": 2000, "usable": 1500, "filter": 100}


def run_rouse(*words, database: Path) -> str:
    answer = running.run([ROUSE, *words, "--db", database])
    if answer.returncode not in (0, 4):
        sys.exit(f"rouse {' '.join(map(str, words))}: {answer.stderr.strip()}")
    return answer.stdout


def machine() -> dict:
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, check=False,
                            capture_output=True, text=True)
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        names = [line.split(":", 1)[1].strip() for line in stream if line.startswith("model name")]
    return {"what": "machine", "cpu": names[0] if names else os.uname().machine,
            "cpus": len(os.sched_getaffinity(0)), "kernel": os.uname().release,
            "commit": commit.stdout.strip(), "load": os.getloadavg()[0]}


def many_attempts(seed: int, count: int, repeat: int, folder: Path) -> Path:
    """A file to import, of `count` attempts like real ones."""
    database = folder / "real.sqlite"
    real = json.loads(run_rouse("measure", "--repeat", repeat, "--seed", seed, "--json",
                                database=database))["attempts"]
    real = [each for each in real if not each["prime"]]
    draw = random.Random(seed)
    target = folder / "many.jsonl"
    with open(target, "w", encoding="utf-8") as stream:
        for index in range(count):
            attempt = dict(real[index % len(real)], id=index + 1, block=index // 5, position=index)
            attempt.pop("schema", None)
            shift = int(attempt["ttft_ns"] * 0.1 * abs(draw.gauss(0, 1)))
            attempt["ttft_ns"] += shift
            attempt["ttfc_ns"] = attempt["ttft_ns"]
            attempt["stages_ns"] = dict(attempt["stages_ns"])
            attempt["stages_ns"]["prefill"] += shift
            if index % 1000 == 999:
                attempt.update(outcome="timeout", ttft_ns=None, ttfc_ns=None)
            stream.write(json.dumps(attempt) + "\n")
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="copy the page there")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/report_page.jsonl",
                        help="where the raw data goes")
    parser.add_argument("--smoke", action="store_true", help="50 attempts, once; keeps nothing")
    given = parser.parse_args()
    if given.smoke:
        given.attempts, given.rounds = 50, 1
    if not (NODE and Path(MODULES).is_dir()):
        sys.exit("report_page: no Node with web/'s packages; ./dev bench report_page has them")
    lines: list[dict] = [machine()]
    values: dict[str, list[float]] = {"written": [], "usable": [], "drawn": [], "filter": []}

    def note(what: str, ms: float, **more) -> None:
        values[what].append(ms)
        lines.append({"what": what, "ms": round(ms, 2), "attempts": given.attempts, **more})
        print(json.dumps(lines[-1]), flush=True)

    with tempfile.TemporaryDirectory(prefix="rouse-page-") as name:
        folder = Path(name)
        database, page = folder / "many.sqlite", folder / "page.html"
        made = many_attempts(given.seed, given.attempts, 1 if given.smoke else 4, folder)
        run_rouse("import", made, database=database)
        for _ in range(given.rounds):
            begin = time.monotonic()
            run_rouse("report", "--html", page, database=database)
            note("written", 1000 * (time.monotonic() - begin), bytes=page.stat().st_size)
        if given.keep:
            shutil.copyfile(page, given.keep)
        answer = running.run(
            [NODE, ROOT / "bench" / "support" / "open_page.mjs", page, folder / "browser",
             given.rounds], env={**os.environ, "ROUSE_NODE_MODULES": MODULES})
        if answer.returncode != 0:
            sys.exit(answer.stderr)
        for line in answer.stdout.splitlines():
            told = json.loads(line)
            note(told["what"], told["ms"], **{k: v for k, v in told.items()
                                              if k not in ("what", "ms")})
    if not given.smoke:
        given.results.write_text("".join(json.dumps(line) + "\n" for line in lines),
                                 encoding="utf-8")
    print(f"\n{'':10} {'median':>9} {'max':>9}   limit")
    for what, found in values.items():
        limit = LIMITS_MS.get(what)
        print(f"{what:10} {statistics.median(found):6.0f} ms {max(found):6.0f} ms   "
              + (f"{limit} ms" if limit else "-"))
    return 0


if __name__ == "__main__":
    running.main(main)
