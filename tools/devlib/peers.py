"""Step "other servers": real servers that tests/e2e/peers_test.py measures beside llama-server.
llama-cpp-python's is the Python part of the engine's own archive on shared libraries built from the
engine's source; mistral.rs is a wheel. All in the cache, and only ./dev test needs them. What can't
be had is no failure: the tests skip with the reason, which is told here too.
"""
import os
import shutil
from pathlib import Path

from devlib import engine, fetch, paths, venv
from devlib.report import StepFailed, run_logged

# A peer for its bytes, not for its speed: quick to compile.
SHARED_FLAGS = ["-DBUILD_SHARED_LIBS=ON", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
                "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DCMAKE_C_FLAGS_RELEASE=-O2"]


def ensure(step) -> dict:
    """Environment variables for the tests: ROUSE_PEERS_PYTHON, ROUSE_LLAMA_CPP_PYTHON, or
    ROUSE_..._MISSING with the reason."""
    found = {}
    try:
        environment = venv.ensure(step, "peers")
        found["ROUSE_PEERS_PYTHON"] = str(venv.program(environment, "python"))
    except StepFailed as failure:
        return {"ROUSE_PEERS_MISSING": str(failure)}
    try:
        found["ROUSE_LLAMA_CPP_PYTHON"] = str(llama_cpp_python(step))
    except StepFailed as failure:
        found["ROUSE_LLAMA_CPP_PYTHON_MISSING"] = str(failure)
    both = "ROUSE_LLAMA_CPP_PYTHON" in found
    step.note("llama-cpp-python, mistral.rs" if both else "mistral.rs only")
    return found


def llama_cpp_python(step) -> Path:
    """A folder for PYTHONPATH that holds the package llama_cpp with its libraries."""
    pin = paths.pins()["engine"]
    source = fetch.engine_source(step)
    directory = engine.directory_for(source, SHARED_FLAGS)
    target = directory / "python"
    if target.exists():
        return target
    with paths.locked(directory.name, step):
        if target.exists():
            return target
        step.begin("shared libraries for llama-cpp-python, once for this machine")
        engine.build_target(step, directory, source, SHARED_FLAGS, "llama", "ggml")
        work = fetch.scratch("llama-cpp-python")
        try:
            archive = fetch.download(step, pin, work)
            package = work / "python" / "llama_cpp"
            fetch.extract_tree(archive, "llama_cpp", package)
            libraries = package / "lib"
            libraries.mkdir(exist_ok=True)
            for library in built_libraries(directory / "build"):
                shutil.copy2(library, libraries / library.name, follow_symlinks=False)
            os.rename(work / "python", target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        paths.remove(directory / "build")
    return target


def built_libraries(tree: Path) -> list[Path]:
    """libllama.so, libggml*.so and their versioned names. They find each other in their own
    folder, so they may be moved together."""
    found = sorted(path for path in tree.rglob("lib*.so*")
                   if path.name.startswith(("libllama.so", "libggml")))
    if not any(path.name == "libllama.so" for path in found):
        raise StepFailed(f"no libllama.so under {tree} after its build")
    return found
