"""From nothing, and from asleep, to the first token: rouse serve, llama-server with its default and
its best flags, a plain program on llama.cpp's library, and Ollama, through `rouse measure`.

Each start is an attempt of the lab: the file's pages are dropped or brought in and proved, the
server is started (or woken) at the intended send, and the first token's read is stamped.

- New processes: all arms are conditions of one run, so each block holds each of them once, in an
  order drawn from the seed.
- Woken servers (rouse's own, llama-server's --sleep-idle-seconds, Ollama's keep_alive 0): rounds
  that hold each arm once, in a drawn order, two attempts of each row in a round.
- The servers' own binaries are in the page cache for all arms alike; only the model's file is cold.
- floor = max(bytes / the best rate that the disk showed in this run, tokenizer where it is not
  kept) + one warm answer to the same prompt. Starting and loading side by side may beat it.

    ./dev bench cold_start                        all models; prints how long it will take
    ./dev bench cold_start --models real,1b --repeat 6 --rows cached,cold
    ./dev bench cold_start --resume               goes on after Ctrl-C, a crash or a reboot
    ./dev bench cold_start --write-docs           the table and the chart into docs/performance.md,
                                                  from the last results
"""
import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from support import cold_start_arms as arms_module
from support import cold_start_report as report
from support import running
from support.bench_models import CACHE, MODELS, ROOT, ROUSE, machine, model_file, rouse, say
from support.cold_start_arms import call, started
from support.raw_rows import replace

RESULTS = ROOT / "bench/results/cold_start.jsonl"
DOCS = ROOT / "docs/performance.md"
CHART = ROOT / "docs/images/cold_start.svg"
ROWS = ("cold", "cached", "wake cold", "wake cached", "warm")
ROUND = 2  # attempts of a row in one round of woken servers
PROMPT_TOKENS = 12
PROMPT = "{salt} Hello my name is"
MORE_WORDS = "Anna and I come from a small town by the old river in the west".split()
# Seconds of one attempt, with the setting of its state: at the start, and for each GB. Only for the
# estimate of the whole, which is corrected by what was seen.
COST_S = {"rouse": (0.5, 0.7), "llama-default": (1.2, 3.2), "llama-best": (0.9, 1.9),
          "naive": (0.7, 1.8), "ollama": (1.8, 3.3)}


class Raw:
    """The raw data: one JSON object a line, appended piece by piece, so that a run can go on."""

    def __init__(self, path: Path):
        self.path = path
        self.lines = []
        if path.exists():
            self.lines = [json.loads(line) for line in path.read_text().splitlines()]

    def add(self, lines: list[dict]) -> None:
        with open(self.path, "a", encoding="utf-8") as stream:
            stream.write("".join(json.dumps(line) + "\n" for line in lines))
            stream.flush()
            os.fsync(stream.fileno())
        self.lines += lines

    def of(self, kind: str) -> list[dict]:
        return [line for line in self.lines if line["kind"] == kind]

    def done(self, piece: str) -> bool:
        return any(line["piece"] == piece for line in self.of("done"))


class Eta:
    def __init__(self):
        self.left = {}  # piece -> estimated seconds
        self.seen = self.estimated = 0.0

    def finished(self, piece: str, seconds: float) -> None:
        self.estimated += self.left.pop(piece, 0.0)
        self.seen += seconds

    def text(self) -> str:
        factor = self.seen / self.estimated if self.estimated > 5 else 1.0
        seconds = sum(self.left.values()) * factor
        return f"{seconds / 60:.1f} min left" if seconds >= 60 else f"{seconds:.0f} s left"


class Bench:
    """One model: its file, its prompt of twelve tokens, its arms, and the pieces of its run."""

    def __init__(self, options, name: str, raw: Raw, eta: Eta):
        self.options, self.name, self.raw, self.eta = options, name, raw, eta
        self.file = model_file(name)
        self.gigabytes = self.file.stat().st_size / 1e9
        self.id, self.prompt = self.ask_itself()
        store = CACHE / "peers/ollama-store" / name if not options.smoke else None
        self.arms = [arm for arm in arms_module.arms_for(
            ROUSE, self.id, self.file, store or options.work / "ollama")
            if not options.arms or arm.name in options.arms]
        if options.smoke:
            self.arms = [arm for arm in self.arms if arm.name not in ("ollama", "llama-default")]
        self.present = [arm for arm in self.arms if not arm.missing]

    def ask_itself(self) -> tuple[str, str]:
        """The model's name, and the prompt: as many words as make twelve tokens of it, with the
        three digits of the salt."""
        command = [str(ROUSE), "serve", "--model", str(self.file), "--port", "{port}"]
        with started(command, {}, self.options.work / "serve.log") as port:
            # It listens before it has looked at the file.
            listed = running.wait_for(
                lambda: json.loads(call(port, "GET", "/v1/models")[1])["data"], "a model's name")
            known = listed[0]["id"]
            prompt = PROMPT
            for word in ["", *MORE_WORDS]:
                prompt += f" {word}" if word else ""
                _, answer = call(port, "POST", "/v1/completions", {
                    "prompt": prompt.replace("{salt}", "123"), "max_tokens": 0})
                count = json.loads(answer)["usage"]["prompt_tokens"]
                if count >= PROMPT_TOKENS:
                    break
        if count != PROMPT_TOKENS:
            say(f"{self.name}: the prompt has {count} tokens")
        return known, prompt

    # --- pieces ---

    def wanted(self, row: str) -> bool:
        return not self.options.rows or row in self.options.rows

    def new_rows(self) -> list[str]:
        return [row for row in ("cached", "cold") if self.wanted(row)]

    def rounds(self) -> int:
        return max(1, -(-self.options.repeat // ROUND))

    def woken(self) -> list:
        rows = {"wake cold", "wake cached", "warm"}
        if not any(self.wanted(row) for row in rows):
            return []
        return [arm for arm in self.present if arm.kind and (arm.kind == "builtin" or any(
            self.wanted(row) for row in arm.rows))]

    def pieces(self) -> list[tuple[str, object]]:
        """(name, what runs it), in order."""
        found = []
        if self.new_rows():
            found.append((f"{self.name} new", self.run_new))
        seed = random.Random(f"{self.options.seed} {self.name}")
        for number in range(self.rounds()):
            order = self.woken()
            seed.shuffle(order)
            found += [(f"{self.name} round {number + 1} {arm.name}",
                       lambda arm=arm, number=number: self.run_woken(arm, number))
                      for arm in order]
        return found

    def estimate(self, piece: str) -> float:
        def of(arm, attempts):
            start, each = COST_S[arm.name]
            return attempts * (start + each * self.gigabytes)
        if piece.endswith(" new"):
            return self.options.repeat * sum(of(arm, len(self.new_rows())) for arm in self.present)
        arm = next(each for each in self.present if piece.endswith(" " + each.name))
        rows = 5 if arm.kind == "builtin" else len(arm.rows)
        return 1.5 + of(arm, ROUND * rows + 1)

    def warm_binaries(self) -> None:
        for arm in self.present:
            for path in arm.binaries:
                path.read_bytes()

    def disk_samples(self, count: int) -> None:
        """How fast the file comes in front to back; the best of all samples is the disk's rate."""
        for number in range(count):
            rouse("evict", self.file, "--quiet", check=False)
            threads = (1, 2, 4)[(len(self.raw.of("disk")) + number) % 3]
            answer = rouse("warm", self.file, "--threads", threads, "--json", check=False)
            if answer.returncode != 0:
                continue
            told = json.loads(answer.stdout)
            self.raw.add([{"kind": "disk", "model": self.name, "threads": threads,
                           "bytes": told["read_bytes"], "ns": told["duration_ns"]}])

    def write_plan(self, name: str, target: dict, conditions: list[dict]) -> Path:
        def text(value):
            if isinstance(value, dict):
                items = (f"{key} = {text(each)}" for key, each in value.items())
                return "{ " + ", ".join(items) + " }"
            return json.dumps(value, ensure_ascii=False)
        lines = ["[experiment]", f"name = {text(name)}", f"prompt = {text(self.prompt)}",
                 f"repeat = {self.options.repeat if name.endswith(' new') else ROUND}",
                 "max_tokens = 1", 'timeout = "2m"', "[target]"]
        lines += [f"{key} = {text(value)}" for key, value in target.items()]
        for condition in conditions:
            lines += ["[[condition]]"]
            lines += [f"{key} = {text(value)}" for key, value in condition.items()]
        path = self.options.work / (name.replace(" ", "-") + ".toml")
        path.write_text("\n".join(lines) + "\n")
        return path

    def measure(self, name: str, plan: Path, show: bool) -> dict:
        """The run as `rouse report --json --attempts` tells it; goes on where an earlier one
        stopped."""
        database = self.options.work / "lab.sqlite"
        words = [plan, "--seed", random.Random(f"{self.options.seed} {name}").randrange(1 << 31)]
        listed = rouse("list", "--db", database, "--json", check=False)
        runs = json.loads(listed.stdout)["runs"] if listed.returncode == 0 else []
        cut = [run for run in runs if run["name"] == name and run["status"] != "complete"]
        if cut and name.endswith(" new"):  # a round is short, and its servers have new ports
            words = ["--resume", cut[-1]["run"]]
        with open(self.options.work / "measure.log", "a", encoding="utf-8") as log:
            answer = subprocess.run(
                [ROUSE, "measure", *map(str, words), "--db", database, "--json"], check=False,
                stdout=subprocess.PIPE, stderr=None if show else log, text=True,
                stdin=subprocess.DEVNULL, preexec_fn=running.die_with_parent)
        if answer.returncode not in (0, 1, 4):
            raise SystemExit(f"{name}: rouse measure ended with status {answer.returncode}, see "
                             f"{self.options.work}/measure.log; --resume goes on")
        return json.loads(answer.stdout)

    def store(self, told: dict, arm_of, first_block: int) -> None:
        lines = []
        for attempt in told["attempts"]:
            if attempt.get("block") is None or attempt["outcome"] == "interrupted":
                continue  # unmeasured, or cut by Ctrl-C or a crash and made again
            arm, row = arm_of(attempt["condition"])
            lines.append(slim(self.name, arm, row, first_block, attempt))
        self.raw.add(lines)

    def run_new(self) -> None:
        conditions = [
            {"name": f"{arm.name} {row}", "target_args": arm.new,
             "state": {"process": "new", "model": "unloaded",
                       "page_cache": "cold" if row == "cold" else "warm"}}
            for arm in self.present for row in self.new_rows()]
        # `env` becomes the server by exec; without one command every arm would be a run of its own.
        variables = {name: value for arm in self.present for name, value in arm.environment.items()}
        words = [f"{name}={value}" for name, value in variables.items()]
        command = shlex.join(["env", *words, "OLLAMA_HOST=127.0.0.1:{port}"])
        target = {"kind": "command", "command": command, "model": self.id,
                  "model_file": str(self.file), "api": "openai-completions"}
        name = f"{self.name} new"
        told = self.measure(name, self.write_plan(name, target, conditions),
                            not self.options.smoke)
        self.store(told, lambda condition: condition.split(" ", 1), 0)
        # Raw data are kept with the project: what the file is called, not where it lies here.
        self.raw.add([{"kind": "environment", "model": self.name, **told["environment"],
                       "model_file": self.file.name}])

    def run_woken(self, arm, number: int) -> None:
        if arm.kind == "builtin":
            return self.run_builtin(arm, number)
        name = f"{self.name} round {number + 1} {arm.name}"
        rows = [row for row in arm.rows if self.wanted(row)]
        with started(arm.resident, arm.environment, self.options.work / f"{arm.name}.log") as port:
            target = {"kind": arm.kind, "url": f"http://127.0.0.1:{port}", "model": self.id,
                      "model_file": str(self.file), "api": "openai-completions"}
            conditions = [{"name": row, "state": state_of(row, "unloaded")} for row in rows]
            told = self.measure(name, self.write_plan(name, target, conditions), False)
        self.store(told, lambda condition: (arm.name, condition), number * ROUND)
        return None

    def run_builtin(self, arm, number: int) -> None:
        """rouse itself, with its own timeline; new processes too, for their stages."""
        name = f"{self.name} round {number + 1} {arm.name}"
        rows = [row for row in ("warm", "wake cached", "wake cold", "cached", "cold")
                if row == "warm" or self.wanted(row)]
        target = {"kind": "builtin", "model": str(self.file), "context": arms_module.CONTEXT,
                  "api": "openai-completions"}
        conditions = [{"name": row, "state": state_of(row, "asleep")} for row in rows]
        told = self.measure(name, self.write_plan(name, target, conditions), False)
        self.store(told, lambda condition: (
            "rouse" if condition.startswith(("wake", "warm")) else "rouse (timeline)", condition),
            number * ROUND)


def state_of(row: str, asleep: str) -> dict:
    cache = {"page_cache": "cold" if row.endswith("cold") else "warm"}
    if row == "warm":
        return {"process": "running"}
    if row.startswith("wake"):
        return {"model": asleep, **cache}
    return {"process": "new", "model": "unloaded", **cache}


def slim(model: str, arm: str, row: str, first_block: int, attempt: dict) -> dict:
    """What the table is made of, and what somebody who doubts it would ask for."""
    send = attempt.get("state_at_send") or {}
    line = {"kind": "attempt", "model": model, "arm": arm, "row": row,
            "block": first_block + attempt["block"], "position": attempt["position"],
            "outcome": attempt["outcome"], "ttft_ns": attempt["ttft_ns"],
            "started_wall_ns": attempt.get("started_wall_ns"),
            "uncertainty_ns": attempt.get("uncertainty_ns"),
            "resident_at_send": (send.get("page_cache") or {}).get("value"),
            "prompt_tokens": (attempt.get("tokens") or {}).get("prompt"),
            "read_bytes": (attempt.get("counters") or {}).get("target_read_bytes"),
            "rss_bytes": (attempt.get("counters") or {}).get("target_rss_bytes"),
            "warnings": [warning["code"] for warning in attempt.get("warnings") or []]}
    if attempt["outcome"] != "ok":
        line["outcome_detail"] = attempt["outcome_detail"][:400]
    if arm.startswith("rouse") and (attempt.get("segments") or []):
        line["stages_ns"] = attempt["stages_ns"]
        line["lanes"] = [{"name": lane["name"], "start_ns": lane["start_ns"],
                          "end_ns": lane["end_ns"]}
                         for lane in attempt["lanes"] if not lane["name"].startswith("try:")]
    return line


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text):
        return [word.strip() for word in text.split(",") if word.strip()]
    parser.add_argument("--models", type=words, default=list(MODELS), help="real, 1b, 3b")
    parser.add_argument("--repeat", type=int, default=10, help="attempts of each arm in each row")
    parser.add_argument("--rows", type=words, default=[], help=", ".join(ROWS))
    parser.add_argument("--arms", type=words, default=[], help=", ".join(COST_S))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=ROOT / "build/bench-cold_start")
    parser.add_argument("--resume", action="store_true", help="go on with what is in --work")
    parser.add_argument("--results", type=Path, help="where the raw data goes, "
                        "beside those of other models; of a run without --rows and --arms: "
                        f"{RESULTS.relative_to(ROOT)}")
    parser.add_argument("--write-docs", action="store_true",
                        help="measure nothing; write docs/performance.md from --results")
    parser.add_argument("--print", action="store_true",
                        help="measure nothing; print the tables from --results")
    parser.add_argument("--smoke", action="store_true", help="the real model, once, a few seconds")
    options = parser.parse_args()
    for given, known, what in ((options.models, MODELS, "--models"), (options.rows, ROWS, "--rows"),
                               (options.arms, COST_S, "--arms")):
        for word in given:
            if word not in known:
                parser.error(f"{what}: no {word}; there are {', '.join(known)}")
    if not options.results and not (options.rows or options.arms):
        options.results = RESULTS
    return options


def run(options) -> Raw:
    raw = Raw(options.work / "raw.jsonl")
    settings = {"kind": "settings", "repeat": options.repeat, "models": options.models,
                "rows": options.rows or list(ROWS), "seed": options.seed}
    if raw.lines and raw.lines[0] != settings:
        raise SystemExit(f"--resume: {options.work} was begun with other settings: "
                         f"{json.dumps(raw.lines[0])}")
    if not raw.lines:
        raw.add([settings, {"kind": "machine", **machine()}])
    eta = Eta()
    benches = [Bench(options, name, raw, eta) for name in options.models]
    todo = []
    for bench in benches:
        if not any(line["model"] == bench.name for line in raw.of("arm")):
            raw.add([{"kind": "arm", "model": bench.name, "arm": arm.name, "title": arm.title,
                      "version": arm.version, "missing": arm.missing} for arm in bench.arms])
            raw.add([{"kind": "model", "model": bench.name, "file": bench.file.name,
                      "bytes": bench.file.stat().st_size, "prompt": bench.prompt}])
        for piece, work in bench.pieces():
            if not raw.done(piece):
                todo.append((bench, piece, work))
                eta.left[piece] = bench.estimate(piece)
    for arm in {arm.name: arm for bench in benches for arm in bench.arms if arm.missing}.values():
        say(f"left out: {arm.title}: {arm.missing}")
    say(f"{len(todo)} pieces, {eta.text()}; raw data in {options.work}")
    for bench, piece, work in todo:
        begin = time.monotonic()
        bench.warm_binaries()
        bench.disk_samples(1 if "round" in piece or options.smoke else 3)
        work()
        raw.add([{"kind": "done", "piece": piece, "load": os.getloadavg()[0],
                  "seconds": round(time.monotonic() - begin, 1)}])
        eta.finished(piece, time.monotonic() - begin)
        say(f"{piece}: {time.monotonic() - begin:.0f} s; {eta.text()}")
    return raw


def main() -> int:
    options = parse()
    if options.write_docs or options.print:
        options.results = options.results or RESULTS
        lines = [json.loads(line) for line in options.results.read_text().splitlines()]
        tables = report.tables(lines, ROUSE)
        if options.write_docs:
            report.write_docs(tables, DOCS, CHART, options.results)
        print(report.markdown(tables))
        say("\n".join(report.goals(tables)))
        return 0
    temporary = None
    if options.smoke:
        temporary = tempfile.TemporaryDirectory(prefix="rouse-bench-")
        options.models, options.repeat, options.rows = ["real"], 1, ["cached", "wake cached"]
        options.work = Path(temporary.name)
    elif not options.resume:
        shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        raw = run(options)
        tables = report.tables(raw.lines, ROUSE)
        print(report.markdown(tables))
        say("\n".join(report.goals(tables)))
        if options.results and not options.smoke:
            replace(options.results, raw.lines, merge=True)
            say(f"raw data: {options.results}; into the documents: "
                "./dev bench cold_start --write-docs")
    finally:
        if temporary:
            temporary.cleanup()
    return 0


if __name__ == "__main__":
    running.main(main, "interrupted; what was measured is kept, --resume goes on")
