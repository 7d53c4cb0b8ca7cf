"""Steps "engine build" and "llama-server": llama.cpp's libraries, built once for this machine
into the per-user cache. The key holds everything that the result depends on, and nothing else."""
import glob
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from devlib import edits, fetch, paths
from devlib.report import StepFailed, run_logged

NINJA_PROGRESS = r"^\[(\d+)/(\d+)\]"


def jobs() -> int:
    return max(1, len(os.sched_getaffinity(0)))


def compiler_facts() -> list[str]:
    facts = []
    for variable, default in (("CC", "cc"), ("CXX", "c++")):
        command = shlex.split(os.environ.get(variable) or default)
        try:
            answer = subprocess.run([*command, "--version"], capture_output=True, text=True,
                                    check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise StepFailed(f"no compiler: {shlex.join(command)} --version: {error}") from error
        facts += [shlex.join(command), answer.splitlines()[0]]
    return facts


def cpu_facts() -> list[str]:
    """What -march=native looks at; a cache on a shared home must not serve another processor."""
    wanted = ("vendor_id", "flags", "Features", "CPU implementer", "CPU part")
    facts = []
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            name, _, value = line.partition(":")
            if not name.strip():
                break  # the first processor says it for all
            if name.strip() in wanted:
                facts.append(f"{name.strip()}={' '.join(sorted(value.split()))}")
    return [os.uname().machine, *facts]


def ccache_env(base: Path, native: bool = False) -> dict:
    """Compiler cache inside the per-user cache unless the user has chosen another. base_dir makes
    two checkouts share objects; the namespace keeps -march=native objects with their processor."""
    if not shutil.which("ccache"):
        return {}
    # Debug information names the directory; without this each clone would compile it all anew.
    env = {"CCACHE_BASEDIR": str(base), "CCACHE_NOHASHDIR": "1"}
    if "CCACHE_DIR" not in os.environ:
        env["CCACHE_DIR"] = str(paths.cache_dir() / "ccache")
        env["CCACHE_MAXSIZE"] = "3G"
    if native:
        env["CCACHE_NAMESPACE"] = "engine-" + paths.key_of(cpu_facts())
    return env


def launcher_args() -> list[str]:
    if not shutil.which("ccache"):
        return []
    return ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]


def directory_for(source: Path, flags: list[str]) -> Path:
    text = (paths.ROOT / "cmake" / "engine" / "CMakeLists.txt").read_text()
    # A changed comment rebuilds nothing.
    recipe = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    key = paths.key_of(source.name, flags, compiler_facts(), cpu_facts(), recipe)
    return paths.cache_dir() / "engine" / f"{paths.pins()['engine']['version']}-{key}"


def build_target(step, directory: Path, source: Path, flags: list[str], *targets: str) -> None:
    """Under the engine's lock. The build tree stays, so an interrupted build goes on where it was
    and llama-server later reuses the libraries."""
    tree = directory / "build"
    env = {
        **ccache_env(paths.cache_dir(), native=True),
        # llama.cpp asks git for its commit and would get that of a repository around the cache.
        "GIT_CEILING_DIRECTORIES": str(source.parent),
    }
    if not (tree / "build.ninja").exists():
        paths.remove(tree)
        tree.mkdir(parents=True)
        run_logged(
            step,
            ["cmake", "-S", paths.ROOT / "cmake" / "engine", "-B", tree, "-G", "Ninja",
             "-DCMAKE_BUILD_TYPE=Release", f"-DLLAMA_SOURCE={source}",
             f"-DLLAMA_RELEASE={paths.pins()['engine']['version']}", *launcher_args(), *flags],
            "engine-configure", env=env, what="the engine could not be configured")
    run_logged(step, ["ninja", "-C", tree, "-j", str(jobs()), *targets],
               "engine-build-" + "-".join(targets),
               env=env, progress=NINJA_PROGRESS, what="the engine could not be built")


def ensure(step, flags: list[str], edited: bool) -> Path:
    """The prefix under which find_package(llama) finds the built engine."""
    source = fetch.edited_engine_source(step) if edited else fetch.engine_source(step)
    directory = directory_for(source, flags)
    prefix = directory / "prefix"
    step.note("for this machine" + ("" if edited else ", without edits") +
              (f", with {shlex.join(flags)}" if flags else ""))
    if prefix.exists():
        link_vocabularies(source, prefix)
        return prefix
    with paths.locked(directory.name, step):
        if prefix.exists():
            return prefix
        step.begin("once for this machine")
        build_target(step, directory, source, flags, "rouse_engine")
        work = directory / f"prefix.{os.getpid()}"
        paths.remove(work)
        run_logged(step, ["cmake", "--install", directory / "build", "--prefix", work],
                   "engine-install", what="the engine could not be installed into the cache")
        link_vocabularies(source, work)
        os.rename(work, prefix)
    return prefix


def link_vocabularies(source: Path, prefix: Path) -> None:
    """The vocabularies that come with the engine's source, for the test that compares them."""
    folder = prefix / "share" / "rouse" / "vocabularies"
    if folder.exists():
        return
    work = folder.with_name(f"vocabularies.{os.getpid()}")
    work.mkdir(parents=True)
    for path in sorted((source / "models").glob("ggml-vocab-*.gguf")):
        edits.link_or_copy(path, work / path.name)
    os.rename(work, folder)


def llama_server(step, flags: list[str]) -> Path:
    """llama.cpp's own server, a peer for tests and benchmarks; ./dev run never needs it. Always of
    the source without rouse's edits."""
    source = fetch.engine_source(step)
    directory = directory_for(source, flags)
    program = directory / "bin" / "llama-server"
    step.note("for tests and benchmarks")
    if program.exists():
        return program
    with paths.locked(directory.name, step):
        if program.exists():
            return program
        step.begin("once for this machine")
        build_target(step, directory, source, flags, "llama-server")
        program.parent.mkdir(parents=True, exist_ok=True)
        work = program.with_name(f"llama-server.{os.getpid()}")
        shutil.copy2(find_program(directory / "build", "llama-server"), work)
        os.rename(work, program)
    return program


def find_program(tree: Path, name: str) -> Path:
    found = [path for path in tree.rglob(name) if path.is_file() and os.access(path, os.X_OK)]
    if not found:
        raise StepFailed(f"no {name} under {tree} after its build")
    return found[0]


def installed_package() -> str | None:
    """Where an installed llama.cpp keeps its CMake package, if one is on the usual paths."""
    prefixes = [*filter(None, os.environ.get("CMAKE_PREFIX_PATH", "").split(":")),
                "/usr/local", "/usr"]
    for prefix in prefixes:
        for pattern in ("lib*/cmake/llama", "lib/*/cmake/llama"):
            for found in glob.glob(os.path.join(prefix, pattern)):
                if os.path.exists(os.path.join(found, "llama-config.cmake")):
                    return found
    return None
