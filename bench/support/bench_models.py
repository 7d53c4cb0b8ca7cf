"""What the benchmarks run on: our own binary, the models (the real one, and synthetic ones that are
made once for this user), and what the machine says of itself."""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from support import running

ROOT = Path(__file__).resolve().parents[2]
ROUSE = Path(os.environ.get("ROUSE_BINARY") or ROOT / "build/release/rouse").absolute()
CACHE = Path(os.environ.get("ROUSE_CACHE")
             or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rouse")
REAL = Path(os.environ.get("ROUSE_MODEL") or CACHE / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
MODELS = ("real", "1b", "3b")


def rouse(*words, check=True, stdin=None):
    answer = running.run([ROUSE, *words], **({"input": stdin} if stdin else
                                             {"stdin": subprocess.DEVNULL}))
    if check and answer.returncode != 0:
        raise SystemExit(f"rouse {' '.join(map(str, words[:3]))} ...: {answer.stderr.strip()}")
    return answer


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A folder on the disk of the cache, where the models are; one that a killed process has left
    goes with the other scratch of ./dev, by the number in its name."""
    parent = CACHE / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=f"bench-{name}-",
                                     suffix=f"-{os.getpid()}") as folder:
        yield Path(folder)


def model_file(name: str) -> Path:
    path = CACHE / "test-models" / f"llama-{name}-q4_0-128k.gguf"
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "real":
        if not REAL.exists():
            raise SystemExit(f"{REAL} is not there: ./dev run fetches it")
        # A copy: somebody's server that maps the model would keep its pages.
        path = path.parent / "cold-start-smollm2.gguf"
        if not path.exists() or path.stat().st_size != REAL.stat().st_size:
            with scratch("model") as folder:  # never half a file at its place
                shutil.copyfile(REAL, folder / "model")
                os.sync()
                (folder / "model").replace(path)
    elif not path.exists():
        say(f"writing {path}")
        rouse("synth", path, "--like", f"llama-{name}", "--quant", "q4_0", "--vocab", "128k",
              "--quiet")
    return path


def machine() -> dict:
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        found = re.search(r"model name\s*:\s*(.*)", stream.read())
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True,
                         text=True, check=False)
    return {"cpu": found[1] if found else os.uname().machine,
            "cpus": len(os.sched_getaffinity(0)), "kernel": os.uname().release,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "commit": git.stdout.strip(), "load": os.getloadavg()[0]}
