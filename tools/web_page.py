#!/usr/bin/env python3
"""Puts the built pages into a folder, for CMake (cmake/RouseWeb.cmake): web_page.py FOLDER

From the per-user cache when web/ has not changed since it was last built on this machine, else it
is built, which takes Node 20.19 or newer and the npm registry once."""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from devlib import web  # noqa: E402
from devlib.report import Report, StepFailed  # noqa: E402


def main(out: Path) -> int:
    try:
        pages = Report(total=1).step("report page", web.pages)
    except StepFailed:
        return 1  # told where it happened
    out.mkdir(parents=True, exist_ok=True)
    for name in web.PAGES:
        shutil.copyfile(pages / name, out / name)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
