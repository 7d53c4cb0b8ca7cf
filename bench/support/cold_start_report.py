"""From the raw data of bench/cold_start.py to tables and a chart. Ratios and their intervals are
`rouse compare`'s (Hodges-Lehmann on logarithms, paired by block); nothing is measured here."""
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from support import cold_start_chart

ROW_TITLES = {
    "cold": "new process, file not cached",
    "cached": "new process, file cached",
    "wake cold": "asleep, file not cached",
    "wake cached": "asleep, file cached",
    "warm": "loaded, new prompt",
}
MODEL_TITLES = {"real": "SmolLM2-135M Q4_1", "1b": "1B Q4_0, 128k vocabulary",
                "3b": "3B Q4_0, 128k vocabulary"}
# What rouse sets itself: (row, arm) -> at least so many times as long as rouse, for (1b, 3b, real);
# "floor": rouse at most so many times its floor.
GOALS = {
    ("cold", "llama-default"): (4.8, 4.3, 3.3), ("cold", "llama-best"): (2.5, 2.1, 2.2),
    ("cached", "llama-default"): (4.4, 4.1, 3.7), ("cached", "llama-best"): (2.1, 1.95, 2.4),
    ("wake cached", "llama-default"): (7.5, 4.8, None),
    ("wake cached", "llama-best"): (3.2, 2.2, None),
    ("wake cold", "llama-default"): (4.7, 3.6, None), ("wake cold", "llama-best"): (2.3, 1.8, None),
    ("cached", "ollama"): (4.5, 4.4, 5), ("wake cached", "ollama"): (8, 5.8, 10),
    ("cold", "floor"): (1.25, 1.25, 1.8), ("cached", "floor"): (1.25, 1.25, 1.4),
    ("wake cached", "floor"): (1.05, 1.05, None), ("wake cold", "floor"): (1.1, 1.1, None),
}
STAGES = ("process_start", "weights", "runtime_init", "tokenize", "queue", "prefill",
          "first_decode", "transport", "unattributed")
WAITS = ("weights", "runtime_init", "tokenize")  # what the disk and the tokenizer explain
COMPUTES = ("prefill", "first_decode")
TIMELINE = "rouse (timeline)"
REFERENCE = "rouse"


def rouse_json(rouse: Path, *words):
    answer = subprocess.run([str(rouse), *map(str, words)], capture_output=True, text=True,
                            stdin=subprocess.DEVNULL, check=False)
    return json.loads(answer.stdout) if answer.returncode in (0, 1, 4) and answer.stdout else None


def median(values) -> float | None:
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def tables(lines: list[dict], rouse: Path) -> dict:
    """Everything that is shown, by model."""
    def of(kind, model=None):
        return [line for line in lines if line["kind"] == kind
                and (model is None or line["model"] == model)]
    found = {"machine": of("machine")[0],
             "commits": list(dict.fromkeys(each["commit"] for each in of("machine"))),
             "settings": of("settings"), "models": {},
             "environment": (of("environment") or [{}])[-1]}
    for model in [line["model"] for line in of("model")]:
        facts = of("model", model)[0]
        attempts = of("attempt", model)
        if not attempts:
            continue
        one = {"facts": facts, "arms": of("arm", model), "rows": {},
               "prompt_tokens": sorted({each["prompt_tokens"] for each in attempts
                                        if each["prompt_tokens"]}),
               "disk_rate": max((each["bytes"] / each["ns"] for each in of("disk", model)
                                 if each["bytes"] and each["ns"]), default=None)}
        ratios = compare_all(attempts, rouse)
        for row in ROW_TITLES:
            here = [each for each in attempts if each["row"] == row]
            by_arm = {}
            for arm in dict.fromkeys(each["arm"] for each in here):
                own = [each for each in here if each["arm"] == arm]
                good = [each["ttft_ns"] for each in own if each["outcome"] == "ok"]
                by_arm[arm] = {"n": len(good), "failed": len(own) - len(good),
                               "median_ns": median(good), "ratio": ratios.get((arm, row)),
                               "why": next((each.get("outcome_detail", "") for each in own
                                            if each["outcome"] != "ok"), "")}
            if by_arm:
                one["rows"][row] = by_arm
        add_floor(one, attempts)
        found["models"][model] = one
    return found


def compare_all(attempts: list[dict], rouse: Path) -> dict:
    """(arm, row) -> how many times as long as rouse it takes, with its 95 % interval."""
    pairs = sorted({(each["arm"], each["row"]) for each in attempts})
    rows_of_reference = {row for arm, row in pairs if arm == REFERENCE}
    found = {}
    with tempfile.TemporaryDirectory(prefix="rouse-bench-") as folder:
        file, database = Path(folder, "all.jsonl"), Path(folder, "all.sqlite")
        with open(file, "w", encoding="utf-8") as stream:
            for position, each in enumerate(attempts):
                line = {"condition": f"{each['arm']} {each['row']}", "outcome": each["outcome"],
                        "block": each["block"], "position": position}
                if each["ttft_ns"] is not None:
                    line["ttft_ns"] = each["ttft_ns"]
                stream.write(json.dumps(line) + "\n")
        told = rouse_json(rouse, "import", file, "--db", database, "--json")
        if told is None:
            return found
        for arm, row in pairs:
            if arm == REFERENCE or row not in rows_of_reference or arm == TIMELINE:
                continue
            answer = rouse_json(rouse, "compare", f"{told['run']}:{arm} {row}",
                                f"{told['run']}:{REFERENCE} {row}", "--db", database, "--json")
            if answer and answer.get("ratio") and answer["ratio"]["value"] is not None:
                interval = answer["ratio"].get("ci") or (None, None)
                found[(arm, row)] = (answer["ratio"]["value"], *interval)
    return found


def lane_ns(attempt: dict, name: str) -> int | None:
    spans = [lane["end_ns"] - lane["start_ns"] for lane in attempt.get("lanes", [])
             if lane["name"] == name]
    return max(spans) if spans else None


def add_floor(one: dict, attempts: list[dict]) -> None:
    """The floor of each row, and each stage's own."""
    told = [each for each in attempts if each["outcome"] == "ok" and "stages_ns" in each]
    warm = median(each["ttft_ns"] for each in told if each["row"] == "warm")
    tokenizer = median(lane_ns(each, "tokenizer") for each in told
                       if each["arm"] == TIMELINE and each["row"] == "cached")
    disk = one["facts"]["bytes"] / one["disk_rate"] if one["disk_rate"] else None
    one["floor"] = {"warm_ns": warm, "tokenizer_ns": tokenizer, "disk_ns": disk, "rows": {}}
    one["stages"] = {}
    for row in ROW_TITLES:
        waits = [disk if row.endswith("cold") else None,
                 None if row.startswith(("wake", "warm")) else tokenizer]
        wait = max([each for each in waits if each is not None], default=0)
        if warm is not None:
            one["floor"]["rows"][row] = wait + warm
        # Woken and warm attempts are rouse's own with a timeline; new processes have two kinds.
        own = [each for each in told if each["row"] == row]
        if not own:
            continue
        stages = {name: median(each["stages_ns"].get(name) for each in own) or 0
                  for name in STAGES}
        compute = median(sum(each["stages_ns"].get(name) or 0 for name in COMPUTES)
                         for each in told if each["row"] == "warm") or 0
        groups = {"waiting for file and tokenizer": (sum(stages[name] for name in WAITS), wait),
                  "computing the prompt": (sum(stages[name] for name in COMPUTES), compute),
                  "process start": (stages["process_start"], 0),
                  "queue, transport, rest": (sum(stages[name] for name in (
                      "queue", "transport", "unattributed")), 0)}
        worst = max(groups, key=lambda name: groups[name][0] - groups[name][1])
        one["stages"][row] = {"n": len(own), "stages": stages, "groups": groups, "worst": worst,
                              "ttft_ns": median(each["ttft_ns"] for each in own)}


# --- text -----------------------------------------------------------------------------------------


def ms(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e6:.0f}" if value >= 10e6 else f"{value / 1e6:.1f}"


def times(ratio) -> str:
    if ratio is None:
        return ""
    value, low, high = ratio
    bounds = f" ({low:.2f}–{high:.2f})" if low is not None and high is not None else ""
    return f"{value:.2f}×{bounds}"


def cell(entry: dict | None) -> str:
    if entry is None:
        return ""
    text = ms(entry["median_ns"])
    if entry["ratio"]:
        text += f" · {times(entry['ratio'])}"
    if entry["failed"]:
        text += f" · {entry['failed']} failed"
    return text


def model_table(one: dict) -> list[str]:
    arms = [arm for arm in one["arms"]
            if any(arm["arm"] in by_arm for by_arm in one["rows"].values())]
    lines = ["| from | " + " | ".join(arm["title"] for arm in arms) + " | floor | rouse / floor |",
             "|---|" + "---|" * (len(arms) + 2)]
    for row, by_arm in one["rows"].items():
        floor = one["floor"]["rows"].get(row)
        own = by_arm.get(REFERENCE, {}).get("median_ns")
        share = f"{own / floor:.2f}" if own and floor and row != "warm" else ""
        lines.append(f"| {ROW_TITLES[row]} | "
                     + " | ".join(cell(by_arm.get(arm["arm"])) for arm in arms)
                     + f" | {ms(floor) if row != 'warm' else ''} | {share} |")
    return lines


def stage_table(one: dict) -> list[str]:
    if not one["stages"]:
        return []  # rouse was not measured with its timeline
    lines = ["| rouse, from | " + " | ".join(name.replace("_", " ") for name in STAGES)
             + " | first token | furthest above its floor |",
             "|---|" + "---:|" * (len(STAGES) + 1) + "---|"]
    for row, stage in one["stages"].items():
        achieved, floor = stage["groups"][stage["worst"]]
        bottleneck = ""
        if row != "warm" and achieved - floor > 1e6:
            bottleneck = (f"{stage['worst']}: {ms(achieved)} of {ms(floor)} ms"
                          if floor else f"{stage['worst']}: {ms(achieved)} ms")
        lines.append(f"| {ROW_TITLES[row]} | "
                     + " | ".join(ms(stage["stages"][name]) for name in STAGES)
                     + f" | {ms(stage['ttft_ns'])} | {bottleneck} |")
    return lines


def facts_line(one: dict) -> str:
    floor = one["floor"]
    rate = f"{one['disk_rate']:.2f} GB/s" if one["disk_rate"] else "not measured"
    return (f"{one['facts']['bytes'] / 1e6:.0f} MB; prompt of "
            f"{' or '.join(map(str, one['prompt_tokens']))} tokens. Floor from the disk's best "
            f"rate {rate} ({ms(floor['disk_ns'])} ms for the file), the tokenizer's "
            f"{ms(floor['tokenizer_ns'])} ms, and a warm answer of {ms(floor['warm_ns'])} ms.")


def attempts_line(one: dict) -> str:
    counts = sorted({entry["n"] for by_arm in one["rows"].values() for entry in by_arm.values()})
    missing = [f"{arm['title']} was left out: {arm['missing']}." for arm in one["arms"]
               if arm["missing"]]
    failed = [f"{arm} {row}: {entry['why']}." for row, by_arm in one["rows"].items()
              for arm, entry in by_arm.items() if entry["failed"]]
    bounds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return " ".join([f"{bounds} attempts each.", *missing, *failed])


def goals(found: dict) -> list[str]:
    """Each goal, what came out, and for a missed one the stage that is furthest above its floor."""
    lines = []
    for model, one in found["models"].items():
        for (row, arm), by_model in GOALS.items():
            goal = by_model[("1b", "3b", "real").index(model)]
            own = one["rows"].get(row, {}).get(REFERENCE, {}).get("median_ns")
            floor = one["floor"]["rows"].get(row)
            if arm == "floor":
                value = own / floor if own and floor else None
            else:
                ratio = one["rows"].get(row, {}).get(arm, {}).get("ratio")
                value = ratio[0] if ratio else None
            if goal is None or value is None:
                continue
            met = value <= goal if arm == "floor" else value >= goal
            sign = "<=" if arm == "floor" else ">="
            word = "met   " if met else "MISSED"
            line = f"{word} {model} {row}, {arm}: {value:.2f} {sign} {goal}"
            stage = one["stages"].get(row)
            if not met and stage:
                achieved, least = stage["groups"][stage["worst"]]
                line += f" ({stage['worst']}: {ms(achieved)} ms, floor {ms(least)})"
            lines.append(line)
    return lines


def versions(found: dict) -> list[str]:
    seen = {}
    for one in found["models"].values():
        for arm in one["arms"]:
            if arm["version"]:
                seen[arm["version"]] = None
    return list(seen)


def markdown(found: dict) -> str:
    machine = found["machine"]
    lines = []
    for model, one in found["models"].items():
        lines += [f"#### {MODEL_TITLES[model]}", "", facts_line(one) + " " + attempts_line(one), "",
                  *model_table(one), "", *stage_table(one), ""]
    disk = found["environment"].get("disk", "")
    lines += [f"Machine: {machine['cpu']}, {machine['cpus']} CPUs, "
              f"{machine['memory_bytes'] / 2**30:.0f} GiB, {disk}, Linux {machine['kernel']}. "
              f"rouse at {' and '.join(found['commits'])}. Versions: {'; '.join(versions(found))}."]
    return "\n".join(lines)


BEGIN, END = "<!-- cold_start: written by bench/cold_start.py -->", "<!-- cold_start: end -->"


def write_docs(found: dict, page: Path, chart: Path, results: Path) -> None:
    """Replaces what stands between the two marks, or adds it at the end."""
    chart.parent.mkdir(parents=True, exist_ok=True)
    chart.write_text(cold_start_chart.svg(found, ROW_TITLES, MODEL_TITLES), encoding="utf-8")
    # Results of several runs may stand in one file.
    commands = [f"    ./dev bench cold_start --models {','.join(settings['models'])} "
                f"--repeat {settings['repeat']} --seed {settings['seed']}"
                for settings in found["settings"]]
    text = "\n".join([
        BEGIN, "",
        f"![Time to the first token from nothing and from asleep](images/{chart.name})", "",
        "Medians in milliseconds, measured by `rouse measure`: each start's state was set and read "
        "back, the clock runs from the start of the process (or the send) to the read that brought "
        "the first token. After the dot: how many times as long as rouse, with the 95 % interval "
        "(Hodges-Lehmann on logarithms, pairs of one block). Binaries are cached for all arms.", "",
        markdown(found), "",
        *commands, "",
        f"Raw data: `bench/results/{results.name}`.", "", END])
    old = page.read_text(encoding="utf-8") if page.exists() else "# Performance\n"
    if BEGIN in old and END in old:
        before, rest = old.split(BEGIN, 1)
        page.write_text(before + text + rest.split(END, 1)[1], encoding="utf-8")
    else:
        page.write_text(old.rstrip("\n") + "\n\n## From nothing to the first token\n\n" + text
                        + "\n", encoding="utf-8")
