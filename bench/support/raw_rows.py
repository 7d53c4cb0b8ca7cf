"""The raw data of a benchmark: one JSON object a line, on disk as soon as it was measured. What the
documents quote is replaced when all is there, never before."""
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from support.bench_models import MODELS, ROOT, say


@contextlib.contextmanager
def recorded(path: Path, keep: bool, merge: bool = False) \
        -> Iterator[tuple[list[dict], Callable[[dict], None]]]:
    """The rows so far, and what adds one. `keep`: false = nothing is written. `merge`: models that
    were not measured now keep their rows in `path`."""
    rows: list[dict] = []
    if not keep:
        yield rows, rows.append
        return
    growing = ROOT / "build" / f"bench-{path.name}"
    growing.parent.mkdir(exist_ok=True)
    try:
        with open(growing, "w", encoding="utf-8") as stream:
            def out(row: dict) -> None:
                rows.append(row)
                stream.write(json.dumps(row) + "\n")
                stream.flush()
            yield rows, out
    except BaseException:
        say(f"what was measured is in {growing}; {path} is as it was")
        raise
    replace(path, rows, merge)


def replace(path: Path, rows: list[dict], merge: bool) -> None:
    if merge and path.exists():
        rows = merged([json.loads(line) for line in path.read_text().splitlines()], rows)
    new = path.with_name(f".{path.name}.new")
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    new.replace(path)


def model_of(row: dict) -> str | None:
    return row.get("model") or row.get("piece", "").split(" ")[0] or None


def models_of(run: list[dict]) -> set[str]:
    return {model_of(row) for row in run} - {None}


def merged(old: list[dict], new: list[dict]) -> list[dict]:
    """The runs of both, each from its settings on, by the models' order. An old one loses the
    models that were measured anew; without any it goes."""
    runs: list[list[dict]] = []
    for row in old:
        if row["kind"] == "settings":
            runs.append([])
        runs[-1].append(row)
    measured = models_of(new)
    kept = []
    for run in runs:
        rest = [{**row, "models": [each for each in row["models"] if each not in measured]}
                if "models" in row else row for row in run if model_of(row) not in measured]
        if models_of(rest):
            kept.append(rest)
    kept.append(new)
    kept.sort(key=lambda run: min(map(MODELS.index, models_of(run)), default=0))
    return [row for run in kept for row in run]
