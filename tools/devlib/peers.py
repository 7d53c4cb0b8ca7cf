"""Step "other servers": real servers that the tests and bench/cold_start measure beside
llama-server. llama-cpp-python's is the Python part of the engine's own archive on shared libraries
built from the engine's source; mistral.rs is a wheel; Ollama is a Go program (devlib/ollama.py),
which only ./dev peers builds; the naive program is bench/cold_start/naive.cc on the engine without
rouse's edits. All in the cache. What can't be had is no failure: tests skip and tables say so, with
the reason, which is told here too.
"""
import os
import shlex
import shutil
from pathlib import Path

from devlib import engine, fetch, ollama, paths, venv
from devlib.report import StepFailed, run_logged

# A peer for its bytes, not for its speed: quick to compile.
SHARED_FLAGS = ["-DBUILD_SHARED_LIBS=ON", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
                "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DCMAKE_C_FLAGS_RELEASE=-O2"]


def ensure(step, flags: list[str]) -> dict:
    """Environment variables for the tests: ROUSE_PEERS_PYTHON, ROUSE_LLAMA_CPP_PYTHON, and those of
    for_benchmarks(), or ROUSE_..._MISSING with the reason."""
    found = for_benchmarks(step, flags)
    try:
        environment = venv.ensure(step, "peers")
        found["ROUSE_PEERS_PYTHON"] = str(venv.program(environment, "python"))
    except StepFailed as failure:
        return {**found, "ROUSE_PEERS_MISSING": str(failure)}
    try:
        found["ROUSE_LLAMA_CPP_PYTHON"] = str(llama_cpp_python(step))
    except StepFailed as failure:
        found["ROUSE_LLAMA_CPP_PYTHON_MISSING"] = str(failure)
    names = {"ROUSE_LLAMA_CPP_PYTHON": "llama-cpp-python", "ROUSE_PEERS_PYTHON": "mistral.rs",
             "ROUSE_OLLAMA": "Ollama"}
    step.note(", ".join(name for variable, name in names.items() if variable in found))
    return found


def for_benchmarks(step, flags: list[str]) -> dict:
    """ROUSE_NAIVE and ROUSE_OLLAMA, or why not. Ollama only when it is in the cache already: it
    takes too long to build to be waited for where it was not asked for."""
    found = {}
    try:
        found["ROUSE_NAIVE"] = str(naive(step, flags))
    except StepFailed as failure:
        found["ROUSE_NAIVE_MISSING"] = str(failure)
    program = ollama.built()
    if program:
        found["ROUSE_OLLAMA"] = str(program)
    else:
        found["ROUSE_OLLAMA_MISSING"] = "it is not in the cache: ./dev peers builds it (15 minutes)"
    return found


def build_all(report, flags: list[str]) -> int:
    """./dev peers: everything, Ollama too. One that can't be built is told and the rest goes on."""
    missing = []

    def attempt(title, work):
        def tell(step):
            try:
                step.note(str(work(step)))
            except StepFailed as failure:
                missing.append(f"{title}: {failure}" + (f" ({failure.log})" if failure.log else ""))
                step.note(f"left out: {failure}")
        report.step(title, tell)
    attempt("naive program", lambda step: naive(step, flags))
    attempt("llama-cpp-python", llama_cpp_python)
    attempt("mistral.rs", lambda step: venv.ensure(step, "peers"))
    attempt("Ollama", ollama.ensure)
    report.finish()
    for line in missing:
        print(f"not there: {line}")
    return 0 if not missing else 1


def naive(step, flags: list[str]) -> Path:
    """bench/cold_start/naive.cc, linked with the engine as its makers released it: the libraries
    that llama-server was built from."""
    source = fetch.engine_source(step)
    directory = engine.directory_for(source, flags)
    code = paths.ROOT / "bench" / "cold_start" / "naive.cc"
    program = directory / "bin" / f"naive-{paths.key_of(code.read_text())}"
    if program.exists():
        return program
    engine.llama_server(step, flags)  # has its libraries in the same build tree
    with paths.locked(directory.name, step):
        libraries = sorted(path for path in (directory / "build").rglob("lib*.a")
                           if path.name == "libllama.a" or path.name.startswith("libggml"))
        work = program.with_name(f"{program.name}.{os.getpid()}")
        compiler = shlex.split(os.environ.get("CXX") or "c++")
        run_logged(step, [*compiler, "-O2", "-std=c++17", code, f"-I{source / 'include'}",
                          f"-I{source / 'ggml' / 'include'}", "-Wl,--start-group", *libraries,
                          "-Wl,--end-group", "-fopenmp", "-ldl", "-lpthread", "-o", work],
                   "naive", what="the naive program could not be built")
        os.rename(work, program)
    return program


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
        work = paths.scratch("llama-cpp-python")
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
