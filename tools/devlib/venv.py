"""Step "Python tools": private virtual environments in the cache, hash-pinned. The user's own
Python packages are neither used nor touched."""
import sys
from pathlib import Path

from devlib import paths
from devlib.report import StepFailed, run_logged

REQUIREMENTS = {
    "fetch": "tools/requirements-fetch.txt",  # pip itself and the archive's build backend
    "test": "tools/requirements-test.txt",  # clang tools, pytest and what the tests import
    "node": "tools/requirements-node.txt",  # Node, where the machine has none
    "peers": "tools/requirements-peers.txt",  # real servers that the tests measure
}


def ensure(step, group: str) -> Path:
    """The environment's directory. Made at its final place (scripts in it hold absolute paths), so
    a stamp says whether it was finished."""
    requirements = paths.ROOT / REQUIREMENTS[group]
    key = paths.key_of(requirements.read_text(), sys.version, sys.base_prefix)
    directory = paths.cache_dir() / "venv" / f"{group}-{key}"
    stamp = directory / ".complete"
    if stamp.exists() and (directory / "bin" / "python").exists():
        return directory
    with paths.locked(f"venv-{group}", step):
        if stamp.exists() and (directory / "bin" / "python").exists():
            return directory
        paths.remove(directory)
        directory.parent.mkdir(parents=True, exist_ok=True)
        step.begin("pinned tools from PyPI")
        if group == "fetch":
            run_logged(step, [sys.executable, "-m", "venv", directory], "venv-fetch",
                       what="no virtual environment could be made (package python3-venv?)")
            pip = [directory / "bin" / "python", "-m", "pip"]
        else:
            fetch = ensure(step, "fetch")
            run_logged(step, [sys.executable, "-m", "venv", "--without-pip", directory],
                       f"venv-{group}", what="no virtual environment could be made")
            pip = [fetch / "bin" / "python", "-m", "pip", "--python", directory / "bin" / "python"]
        run_logged(
            step, [*pip, "install", "--require-hashes", "--no-deps", "-r", requirements],
            f"pip-{group}", what="the Python tools could not be installed")
        stamp.touch()
    return directory


def program(directory: Path, name: str) -> Path:
    path = directory / "bin" / name
    if not path.exists():
        raise StepFailed(f"{path} is missing; remove {directory} and try again")
    return path
