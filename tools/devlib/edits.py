"""rouse's edits of the engine's source (docs/decisions/0010-engine-edits.md): text of our own, put
in at anchors that must each be found exactly once. Where one isn't, the build stops and says which.

third_party/llama/edits/*.toml, in the order of their names, each a list of

    [[edit]]
    file = "src/x.cpp"             # below the source tree
    why = "..."
    find = '''...'''               # replaced; or `from` and `to`: from the one to the other's end
    after = '''...'''              # only behind this, and `before`: in front of that (optional)
    replace = '''...'''

    [[check]]
    file = "src/x.cpp"             # every match of `every` must be one of `matches` too
    every = 'regex'
    matches = 'regex'

The line break at the end of a text in triple quotes is not part of it. third_party/llama/added/
holds new files. `python3 -m devlib.edits SOURCE TARGET` in tools/ makes an edited copy by hand.
"""
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

from devlib import paths
from devlib.report import StepFailed


def directory() -> Path:
    return paths.ROOT / "third_party" / "llama"


def edit_files() -> list[Path]:
    return sorted((directory() / "edits").glob("*.toml"))


def added_files() -> list[Path]:
    return sorted(path for path in (directory() / "added").rglob("*") if path.is_file())


def digest() -> str:
    """A short name for what the edits do; comments of the .toml files don't count."""
    return paths.key_of([tomllib.loads(path.read_text()) for path in edit_files()],
                        [(str(path.relative_to(directory())), path.read_text())
                         for path in added_files()])


def make_tree(source: Path, target: Path) -> None:
    """An edited copy of a source tree. Files that no edit touches are links to the original's."""
    changed = edited(source)
    for root, folders, files in os.walk(source):
        folders.sort()
        folder = target / os.path.relpath(root, source)
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            path = Path(root) / name
            if str(path.relative_to(source)) not in changed:
                link_or_copy(path, folder / name)
    for name, text in changed.items():
        (target / name).write_text(text)
    for path in added_files():
        place = target / path.relative_to(directory() / "added")
        if place.exists():
            raise StepFailed(f"the engine's source has a file {place.relative_to(target)} now, "
                             "which rouse's edits want to add")
        shutil.copy2(path, place)


def link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def edited(source: Path) -> dict[str, str]:
    """The texts of all files that are edited, by their names below `source`."""
    texts: dict[str, str] = {}
    for path in edit_files():
        content = tomllib.loads(path.read_text())
        for check in content.get("check", []):
            check_every(path.name, source, check)
        for edit in content.get("edit", []):
            name = edit["file"]
            if name not in texts:
                texts[name] = read(path.name, source, name)
            texts[name] = apply(path.name, edit, texts[name])
    return texts


def read(edits: str, source: Path, name: str) -> str:
    try:
        return (source / name).read_text()
    except OSError as error:
        raise StepFailed(f"{edits}: cannot read the engine's {name}: {error.strerror}") from error


def apply(edits: str, edit: dict, text: str) -> str:
    where = f"{edits}: {edit['file']}"
    begin, end = 0, len(text)
    if "after" in edit:
        begin = position(where, "after", trimmed(edit["after"]), text, 0, end)
        begin += len(trimmed(edit["after"]))
    if "before" in edit:
        end = position(where, "before", trimmed(edit["before"]), text, begin, end)
    if "find" in edit:
        start = position(where, "find", trimmed(edit["find"]), text, begin, end)
        stop = start + len(trimmed(edit["find"]))
    else:
        start = position(where, "from", trimmed(edit["from"]), text, begin, end)
        to = trimmed(edit["to"])
        # The first one behind `from`: the same words may follow later in the file.
        stop = text.find(to, start, end)
        if stop < 0:
            raise StepFailed(anchor_problem(where, "to", to, 0))
        stop += len(to)
    return text[:start] + trimmed(edit["replace"]) + text[stop:]


def trimmed(text: str) -> str:
    return text.removesuffix("\n")


def position(where: str, name: str, anchor: str, text: str, begin: int, end: int) -> int:
    found = text.find(anchor, begin, end)
    count = text[begin:end].count(anchor)
    if count != 1 or text.find(anchor, found + 1, end) >= 0:
        raise StepFailed(anchor_problem(where, name, anchor, count))
    return found


def anchor_problem(where: str, name: str, anchor: str, count: int) -> str:
    quoted = anchor.strip().splitlines()[0].strip()
    return (f"{where}: the anchor `{name}` = \"{quoted}\" is found {count} times, must be found "
            "once. This source is not the one that the edit was written for: adapt the edit, or "
            "build without (./dev build -DROUSE_ENGINE_EDITS=OFF)")


def check_every(edits: str, source: Path, check: dict) -> None:
    text = read(edits, source, check["file"])
    for match in re.finditer(check["every"], text):
        if not re.match(check["matches"], text[match.start():]):
            line = text.count("\n", 0, match.start()) + 1
            raise StepFailed(f"{edits}: {check['file']}:{line} breaks what an edit relies on: "
                             f"{check['why']}")


if __name__ == "__main__":
    try:
        make_tree(Path(sys.argv[1]), Path(sys.argv[2]))
    except StepFailed as failure:
        sys.exit(str(failure))
