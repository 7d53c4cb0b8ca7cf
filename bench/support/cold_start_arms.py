"""The arms of bench/cold_start.py: how each server is started, in its own words, and what Ollama
needs to serve a file that the others serve too. No measuring here."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from support import running

CONTEXT = 2048
SLEEP_AFTER_S = 1
BEST = ["-np", "1", "--fit", "off", "--no-warmup", "--no-repack", "-cram", "0", "--no-ui"]
READY_S = 120


@dataclass
class Arm:
    """`new` is the command that a new process is; `resident` the one that stays and is woken."""

    name: str
    title: str
    new: list[str] = field(default_factory=list)  # {port} is filled in by the lab
    resident: list[str] = field(default_factory=list)
    kind: str = ""  # of target, for `resident`
    rows: tuple = ()  # of the resident server
    environment: dict = field(default_factory=dict)  # of `resident`
    binaries: list[Path] = field(default_factory=list)
    version: str = ""
    missing: str = ""  # why it is left out; "" = it is there


def output_of(command: list) -> str:
    try:
        answer = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60,
                                stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"({error})"
    return (answer.stdout + answer.stderr).strip()


def line_with(text: str, word: str) -> str:
    return next((line.strip() for line in text.splitlines() if word in line), "unknown")


def program(variable: str, hint: str) -> tuple[Path | None, str]:
    """The path that the variable names, or why there is none."""
    path = os.environ.get(variable)
    if path and Path(path).exists():
        return Path(path), ""
    told = os.environ.get(f"{variable}_MISSING")
    return None, told or (f"{path} is not there" if path else f"{variable} is not set: {hint}")


def rouse_arm(rouse: Path, model: Path) -> Arm:
    return Arm("rouse", "rouse serve",
               new=[str(rouse), "serve", "--model", str(model), "--host", "127.0.0.1", "--port",
                    "{port}", "--context", str(CONTEXT)],
               kind="builtin", binaries=[rouse],
               version=output_of([rouse, "--version"]).split(" (")[0])


def llama_arms(model: Path) -> list[Arm]:
    path, missing = program("ROUSE_LLAMA_SERVER", "./dev bench builds it")
    arms = []
    for name, title, more in (("llama-default", "llama-server, default flags", []),
                              ("llama-best", "llama-server, best flags", BEST)):
        common = [str(path), "-m", str(model), "--host", "127.0.0.1", "--port", "{port}", "-c",
                  str(CONTEXT), *more]
        arms.append(Arm(name, title, new=common,
                        resident=[*common, "--sleep-idle-seconds", str(SLEEP_AFTER_S)],
                        kind="llama-server", rows=("wake cached", "wake cold"),
                        binaries=[path] if path else [], missing=missing,
                        version="" if missing else
                        line_with(output_of([path, "--version"]), "version")))
    return arms


def naive_arm(model: Path) -> Arm:
    path, missing = program("ROUSE_NAIVE", "./dev bench builds it")
    return Arm("naive", "plain libllama program",
               new=[str(path), str(model), "{port}", str(CONTEXT)],
               binaries=[path] if path else [], missing=missing,
               version="bench/cold_start/naive.cc")


def ollama_arm(name: str, model: Path, store: Path) -> Arm:
    path, missing = program("ROUSE_OLLAMA", "./dev peers builds it (about 15 minutes)")
    if missing:
        return Arm("ollama", "Ollama 0.17.4", missing=missing)
    home = store / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"OLLAMA_MODELS": str(store), "OLLAMA_CONTEXT_LENGTH": str(CONTEXT),
                   "OLLAMA_NOPRUNE": "1", "HOME": str(home)}
    try:
        link_into_ollama(path, environment, name, model, store)
    except (RuntimeError, OSError) as error:
        return Arm("ollama", "Ollama 0.17.4", missing=f"it does not take {model.name}: {error}")
    libraries = sorted((path.parent.parent / "lib" / "ollama").glob("*.so*"))
    return Arm("ollama", "Ollama 0.17.4",
               new=[str(path), "serve"],
               resident=[str(path), "serve"], environment=environment, kind="ollama",
               rows=("wake cached",), binaries=[path, *libraries],
               version=line_with(output_of([path, "--version"]), "version").replace(
                   "Warning: client", "Ollama"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def started(command: list[str], environment: dict, log: Path):
    """A resident server that listens; its port. Ended at the end, with its children's."""
    port = free_port()
    words = [word.replace("{port}", str(port)) for word in command]
    with open(log, "ab") as stream:
        process = running.start(
            words, stdout=stream, stderr=stream,
            env={**os.environ, **environment, "OLLAMA_HOST": f"127.0.0.1:{port}"})
    try:
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"{words[0]} does not listen (status {process.poll()}), see {log}")
            time.sleep(0.05)
        yield port
    finally:
        running.end(process)


def call(port: int, method: str, path: str, body: dict | None = None, timeout: float = 120):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def link_into_ollama(path: Path, environment: dict, name: str, model: Path, store: Path) -> None:
    """`ollama create` copies the file into its store; the copy is then replaced by the file itself,
    so that one file's pages are the page cache layer of every arm."""
    stamp = store / f".{name}"
    facts = f"{model} {model.stat().st_size} {model.stat().st_mtime_ns}"
    if stamp.exists() and stamp.read_text() == facts:
        return
    recipe = store / "Modelfile"
    # The template of a plain completion: the prompt and nothing else, as the other arms have it.
    recipe.write_text(f'FROM {model}\nTEMPLATE "{{{{ .Prompt }}}}"\nPARAMETER num_ctx {CONTEXT}\n')
    with started([str(path), "serve"], environment, store / "create.log") as port:
        answer = subprocess.run(
            [str(path), "create", name, "-f", str(recipe)], capture_output=True, text=True,
            env={**os.environ, **environment, "OLLAMA_HOST": f"127.0.0.1:{port}"}, check=False,
            timeout=600, stdin=subprocess.DEVNULL)
        if answer.returncode != 0:
            raise RuntimeError(answer.stderr.strip().splitlines()[-1])
    blobs = [each for each in (store / "blobs").iterdir()
             if each.stat().st_size == model.stat().st_size]
    if len(blobs) != 1:
        raise RuntimeError(f"its store holds {len(blobs)} files of the size of {model.name}")
    if not os.path.samefile(blobs[0], model):
        replace_by_link(blobs[0], model)
    stamp.write_text(facts)


def replace_by_link(copy: Path, original: Path) -> None:
    new = copy.with_name(copy.name + ".link")
    new.unlink(missing_ok=True)
    try:
        os.link(original, new)
    except OSError:  # another file system
        os.symlink(original, new)
    os.replace(new, copy)


def arms_for(rouse: Path, name: str, model: Path, store: Path) -> list[Arm]:
    store.mkdir(parents=True, exist_ok=True)
    return [rouse_arm(rouse, model), *llama_arms(model), naive_arm(model),
            ollama_arm(name, model, store)]


def remove_store(store: Path) -> None:
    shutil.rmtree(store, ignore_errors=True)
