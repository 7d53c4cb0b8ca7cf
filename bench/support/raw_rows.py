"""The raw data of a benchmark: one JSON object a line, on disk as soon as it was measured."""
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def recorded(path: Path, keep: bool) -> Iterator[tuple[list[dict], Callable[[dict], None]]]:
    """The rows so far, and what adds one. `keep`: false = nothing is written."""
    rows: list[dict] = []
    with open(path if keep else os.devnull, "w", encoding="utf-8") as stream:
        def out(row: dict) -> None:
            rows.append(row)
            stream.write(json.dumps(row) + "\n")
            stream.flush()
        yield rows, out
