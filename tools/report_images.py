#!/usr/bin/env python3
"""Pictures of report pages for docs/images, from real runs: nothing in them is drawn by hand.

    tools/report_images.py                    measures the presets, then takes them (6 minutes)
    tools/report_images.py --db FILE --run quick=3 --run idle=7 --run storage=5 --compare 4 3
                                              of stored runs

Needs what the browser tests need: Node with web/node_modules (npm ci in web/) and Chromium, and
pngquant for small files. The idle ladder that it measures is a short one: its first step that loses
a layer comes after hours, and a stored run can be given instead.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
# name of a picture -> (width, theme, first, last): what of the page it shows
PICTURES = {
    "": (1180, "light", None, "#ladder, #conditions"),
    "-dark": (1180, "dark", None, "#ladder, #conditions"),
    "-phone": (390, "light", None, "#conditions"),
    "-attempt": (1180, "light", "#attempt", "#attempt .strips, #attempt .lane-box"),
}


# name of a run -> how it is measured when none is given
MEASURES = {
    "quick": ["--preset", "quick", "--repeat", "8"],
    "storage": ["--preset", "storage", "--path", "disk={folder}", "--path", "memory=/dev/shm"],
    "idle": ["--preset", "idle", "--idle", "0s,5s,20s", "--repeat", "6"],
}


# ... and below what its picture ends, when that is not the ladder
LAST = {"idle": "#every-attempt", "storage": "#tiers"}


def small(picture: Path) -> None:
    """A palette of 128 colours is enough for flat pictures, and a third of the size."""
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--strip", "--output", picture, "128", picture],
                       check=True)


def rouse(*words, codes=(0, 1, 4)) -> str:
    binary = os.environ.get("ROUSE_BINARY", str(ROOT / "build" / "release" / "rouse"))
    answer = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)
    if answer.returncode not in codes:
        sys.exit(f"rouse {' '.join(map(str, words))}: {answer.stderr.strip()}")
    return answer.stdout


def last_of(selectors: str, page: Path) -> str:
    """The first of the selectors that this page has: a run without a base has no ladder."""
    text = page.read_text()
    ladder = '"cost_ns":' in text
    names = [name.strip() for name in selectors.split(",")]
    return names[0] if ladder or "#ladder" not in names else names[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", type=Path, help="the database of --run and --compare")
    parser.add_argument("--run", action="append", default=[], metavar="NAME=RUN")
    parser.add_argument("--compare", nargs=2, metavar=("RUN", "RUN"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rouse-images-") as name:
        folder = Path(name)
        database = given.db or folder / "runs.sqlite"
        runs = dict(each.split("=", 1) for each in given.run)
        if not runs and not given.compare:
            for number, (run_name, words) in enumerate(MEASURES.items(), 1):
                rouse("measure", *(word.format(folder=folder) for word in words), "--db", database)
                runs[run_name] = str(number)
        wanted = []
        for run_name, run in runs.items():
            page = folder / f"{run_name}.html"
            rouse("report", run, "--html", page, "--db", database)
            for suffix, (width, theme, first, last) in PICTURES.items():
                if suffix and run_name != "quick":
                    continue
                out = IMAGES / f"report-{run_name}{suffix}.png"
                wanted.append({"file": str(page), "out": str(out), "width": width, "theme": theme,
                               "from": first, "to": last_of(last, page)})
                if run_name in LAST:
                    wanted[-1]["to"] = LAST[run_name]
        if given.compare:
            page = folder / "compare.html"
            rouse("compare", *given.compare, "--html", page, "--db", database)
            wanted.append({"file": str(page), "out": str(IMAGES / "report-compare.png"),
                           "width": 1180, "theme": "light", "from": None, "to": "#distributions"})
        modules = os.environ.get("ROUSE_NODE_MODULES") or str(ROOT / "web" / "node_modules")
        node = os.environ.get("ROUSE_NODE") or shutil.which("node")
        subprocess.run([node, ROOT / "tools" / "report_images.mjs"], input=json.dumps(wanted),
                       text=True, check=True, env={**os.environ, "ROUSE_NODE_MODULES": modules})
    for each in wanted:
        small(Path(each["out"]))
        size = Path(each["out"]).stat().st_size
        print(f"{os.path.relpath(each['out'], ROOT)}  {size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
