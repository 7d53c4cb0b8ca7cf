"""Ollama, a peer for benchmarks and for the tests of its target: built once for this machine into
the cache, from the Go module that third_party/pins.toml names (the Go client checks it against the
public checksum database, and its sum is compared with the pin here). Nothing of it is edited. The
module lacks one folder, since Go leaves every folder named `vendor` out of modules; the engine's
source has the same third-party headers. About 15 minutes and 1 GB on two cores: ./dev peers and
./dev bench build it, ./dev test only uses what is there (docs/decisions/0016-ollama-as-a-peer.md).
"""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from devlib import engine, fetch, paths
from devlib.report import StepFailed, run_logged

MINIMUM_GO = (1, 21)  # the first one that fetches the newer toolchain that a module asks for

# Ollama's own CPU libraries for x86-64, best first, with what each needs of the processor. It picks
# among those that it finds at start; only the one that it would pick is built.
X86_LIBRARIES = [
    ("icelake", "avx2 bmi2 fma f16c avx512f avx512vbmi avx512_vnni"),
    ("skylakex", "avx2 bmi2 fma f16c avx512f avx512cd avx512vl avx512dq avx512bw"),
    ("alderlake", "avx2 bmi2 fma f16c avx_vnni"),
    ("haswell", "avx2 bmi2 fma f16c"),
    ("sandybridge", "avx"),
    ("sse42", "sse4_2"),
    ("x64", ""),
]


def cpu_library(machine: str, flags: set[str]) -> str:
    """The CMake target of the best CPU library for a processor with these flags."""
    if machine != "x86_64":
        return "ggml-cpu"  # all of them
    for name, needs in X86_LIBRARIES:
        if set(needs.split()) <= flags:
            return f"ggml-cpu-{name}"
    raise AssertionError("x64 needs nothing")


def processor_flags() -> set[str]:
    for fact in engine.cpu_facts():
        name, _, value = fact.partition("=")
        if name in ("flags", "Features"):
            return set(value.split())
    return set()


def go_version() -> str:
    try:
        told = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True,
                              check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise StepFailed("Ollama needs the Go compiler (go) on PATH to be built") from error
    match = re.match(r"go(\d+)\.(\d+)", told)
    if not match or (int(match[1]), int(match[2])) < MINIMUM_GO:
        raise StepFailed(f"Ollama needs Go {'.'.join(map(str, MINIMUM_GO))} or newer; this is "
                         f"{told or 'unknown'}")
    return told


def directory_for(source: Path) -> Path:
    pin = paths.pins()["ollama"]
    key = paths.key_of(pin, source.name, engine.compiler_facts(), engine.cpu_facts())
    return paths.cache_dir() / "peers" / f"ollama-{pin['version']}-{key}"


def built() -> Path | None:
    """The program if it is in the cache already; builds and fetches nothing."""
    pin = paths.pins()["engine"]
    key = paths.key_of(pin, [])
    source = paths.cache_dir() / "engine" / f"source-{pin['version']}-{key}"
    program = directory_for(source) / "bin" / "ollama"
    return program if program.exists() else None


def ensure(step) -> Path:
    """bin/ollama, with lib/ollama beside bin. Raises StepFailed with the reason in one line."""
    pin = paths.pins()["ollama"]
    source = fetch.engine_source(step)
    directory = directory_for(source)
    program = directory / "bin" / "ollama"
    if program.exists():
        return program
    go_version()
    with paths.locked(directory.name, step):
        if program.exists():
            return program
        step.begin(f"Ollama {pin['version']}, once for this machine: about 15 minutes, 1 GB")
        work = paths.cache_dir() / "tmp" / directory.name  # kept when interrupted
        tree = module_tree(step, pin, source, work)
        result = work / "result"
        paths.remove(result)
        build_program(step, pin, tree, result / "bin" / "ollama")
        build_library(step, tree, work / "build", result / "lib" / "ollama")
        directory.parent.mkdir(parents=True, exist_ok=True)
        os.rename(result, directory)
        shutil.rmtree(work, ignore_errors=True)
    return program


def module_tree(step, pin: dict, source: Path, work: Path) -> Path:
    """A writable copy of the module, with the folder that modules can't hold."""
    lines = run_logged(step, ["go", "mod", "download", "-json",
                              f"{pin['module']}@v{pin['version']}"],
                       "ollama-download", cwd="/", what="the Go module could not be downloaded")
    told = json.loads("\n".join(lines[next(i for i, text in enumerate(lines) if text == "{"):]))
    if told.get("Sum") != pin["sum"]:
        raise StepFailed(f"{pin['module']} v{pin['version']} has sum {told.get('Sum')}, "
                         f"pinned is {pin['sum']}")
    tree = work / "tree"
    if not (tree / ".complete").exists():
        paths.remove(tree)
        shutil.copytree(told["Dir"], tree)
        for folder, _, names in os.walk(tree):  # the module cache is read-only
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.chmod(path, os.stat(path).st_mode | 0o200)
        shutil.copytree(source / "vendor", tree / "llama" / "llama.cpp" / "vendor")
        (tree / ".complete").touch()
    return tree


def build_program(step, pin: dict, tree: Path, program: Path) -> None:
    step.begin(f"Ollama {pin['version']}: its program, about 10 minutes")
    flags = "-O3 -march=native"
    run_logged(step, ["go", "build", "-p", str(engine.jobs()), "-buildvcs=false", "-ldflags",
                      f"-s -w -X={pin['module']}/version.Version={pin['version']}",
                      "-o", program, "."],
               "ollama-build", cwd=tree, what="Ollama could not be built",
               env={"CGO_ENABLED": "1", "CGO_CFLAGS": flags, "CGO_CXXFLAGS": flags})


def build_library(step, tree: Path, build: Path, folder: Path) -> None:
    """What its runner computes with; without it the slow path inside of the program is taken."""
    target = cpu_library(os.uname().machine, processor_flags())
    step.begin(f"Ollama: {target}, about 3 minutes")
    run_logged(
        step,
        ["cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         # Only the processor's part: no look for accelerators.
         "-DCMAKE_CUDA_COMPILER=NOTFOUND", "-DCMAKE_HIP_COMPILER=NOTFOUND",
         "-DCMAKE_DISABLE_FIND_PACKAGE_Vulkan=ON", *engine.launcher_args()],
        "ollama-configure", env=engine.ccache_env(paths.cache_dir()),
        what="Ollama's CPU library could not be configured")
    run_logged(step, ["ninja", "-C", build, "-j", str(engine.jobs()), "ggml-base", target],
               "ollama-library", env=engine.ccache_env(paths.cache_dir()),
               progress=engine.NINJA_PROGRESS, what="Ollama's CPU library could not be built")
    folder.mkdir(parents=True, exist_ok=True)
    for library in (build / "lib" / "ollama").glob("libggml-*.so*"):
        shutil.copy2(library, folder / library.name, follow_symlinks=False)
    if not list(folder.glob("libggml-cpu*.so")) or not list(folder.glob("libggml-base.so*")):
        raise StepFailed(f"no libggml-base.so and libggml-cpu*.so under {build} after its build")
