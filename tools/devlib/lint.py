"""Step "lint": clang-tidy over src/, several at a time. A file that passed is not looked at again
until it, a header of ours that it includes, the checks or the tool change."""
import concurrent.futures
import json
import os
import re
import subprocess
from pathlib import Path

from devlib import engine, paths, venv
from devlib.report import StepFailed, log_path

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def project_includes(path: Path, texts: dict) -> set[Path]:
    """The files of src/ that `path` includes, directly or not, itself among them."""
    found, pending = set(), [path]
    while pending:
        current = pending.pop()
        if current in found:
            continue
        found.add(current)
        if current not in texts:
            texts[current] = current.read_text(errors="replace")
        for name in INCLUDE.findall(texts[current]):
            header = paths.ROOT / "src" / name
            if header.is_file():
                pending.append(header)
    return found


def wanted(files: list[Path], commands: dict) -> list[Path]:
    """Sources that are compiled, without unit tests: GoogleTest's macros set off half of the
    checks, and each test is another 5 s."""
    return [path for path in files if path.suffix == ".cc" and str(path) in commands
            and path.is_relative_to(paths.ROOT / "src") and not path.stem.endswith("_test")]


def run(step, build_directory: Path, files: list[Path]) -> None:
    tidy = venv.program(venv.ensure(step, "test"), "clang-tidy")
    database = json.loads((build_directory / "compile_commands.json").read_text())
    commands = {entry["file"]: entry["command"] for entry in database}
    rules = [(paths.ROOT / ".clang-tidy").read_text(), str(tidy)]
    passed = paths.cache_dir() / "lint"
    passed.mkdir(parents=True, exist_ok=True)
    texts, pending = {}, []
    sources = wanted(files, commands)
    for source in sources:
        # Paths relative to the checkout, so that another clone of the same state is clean too.
        content = sorted((str(path.relative_to(paths.ROOT)), texts[path])
                         for path in project_includes(source, texts))
        command = commands[str(source)].replace(str(paths.ROOT), "")
        stamp = passed / paths.key_of(rules, content, command)
        if not stamp.exists():
            pending.append((source, stamp))
    step.note(f"clang-tidy, {len(sources)} files")
    if pending:
        step.begin(f"clang-tidy, {len(pending)} of {len(sources)} files")
        look_at(step, tidy, build_directory, pending)


def look_at(step, tidy: Path, build_directory: Path, pending) -> None:
    log = log_path("lint")
    failed = []
    with open(log, "w", encoding="utf-8") as stream, \
            concurrent.futures.ThreadPoolExecutor(engine.jobs()) as pool:
        futures = {pool.submit(tidy_one, tidy, build_directory, source): (source, stamp)
                   for source, stamp in pending}
        try:
            for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
                source, stamp = futures[future]
                status, output = future.result()
                if status == 0:
                    stamp.touch()
                else:
                    failed.append(output)
                    stream.write(f"=== {source}\n{output}\n")
                step.progress(done, len(pending))
        except BaseException:  # Ctrl-C: files that have not begun are left out, not waited for
            pool.shutdown(cancel_futures=True)
            raise
    if failed:
        lines = "\n".join(failed).splitlines()
        found = [os.path.relpath(line, paths.ROOT) if line.startswith("/") else line
                 for line in lines if ": error:" in line or ": warning:" in line]
        raise StepFailed(f"clang-tidy found {len(found)} in {len(failed)} files",
                         f"{tidy} -p {build_directory} FILE", log, found[:40])


def tidy_one(tidy: Path, build_directory: Path, source: Path) -> tuple[int, str]:
    answer = subprocess.run(
        # -w: compiler warnings are gcc's business; a wheel's clang knows other ones.
        [tidy, "-p", build_directory, "--quiet", "--extra-arg=-w", source],
        capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout + answer.stderr
