"""Where things are, the pins, and the few file operations that several steps share."""
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
DAY_S = 24 * 60 * 60


def cache_dir() -> Path:
    """The per-user cache, outside the checkout: a fresh clone finds engine, model and tools there.
    The same directory that `rouse models` looks into."""
    if os.environ.get("ROUSE_CACHE"):
        return Path(os.environ["ROUSE_CACHE"]).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "rouse"


def pins() -> dict:
    return tomllib.loads((ROOT / "third_party" / "pins.toml").read_text())


def sha256_file(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def key_of(*parts) -> str:
    """A short name for everything that a cached result depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    os.replace(temporary, path)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def scratch(name: str) -> Path:
    """A new directory on the cache's file system, so that a rename out of it is atomic."""
    directory = cache_dir() / "tmp" / f"{name}-{os.getpid()}"
    remove(directory)
    directory.mkdir(parents=True)
    return directory


def drop_scratch_of_killed() -> None:
    """Those whose process is gone, a day after: it may be alive in a container of the same cache,
    where this one does not see it."""
    for directory in (cache_dir() / "tmp").glob("*-*"):
        number = directory.name.rpartition("-")[2]
        with contextlib.suppress(OSError):
            old = time.time() - directory.stat().st_mtime > DAY_S
            if number.isdigit() and old and not Path(f"/proc/{number}").exists():
                remove(directory)


@contextlib.contextmanager
def locked(name: str, step=None):
    """Only one ./dev at a time makes the thing called `name`; the others wait, then find it made.
    The kernel drops the lock when its holder ends, however it ends."""
    directory = cache_dir() / "locks"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / f"{name}.lock", "w", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if step:
                step.begin("waiting for another ./dev that is at it")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
