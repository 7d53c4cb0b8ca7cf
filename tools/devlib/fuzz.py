"""Steps "fuzz build" and "fuzzing": the libFuzzer entries of tests/fuzz, built by clang with
AddressSanitizer and UndefinedBehaviorSanitizer into build/fuzz. Only the parsers are built, never
the engine. What an entry finds is kept in build/fuzz/corpus, what breaks it in build/fuzz/crashes.
"""
import concurrent.futures
import re
import subprocess
from pathlib import Path

from devlib import children, engine, paths
from devlib.report import StepFailed, log_path, run_logged

CLANG = {"CC": "clang-19", "CXX": "clang++-19"}
FLAGS = "-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
CI_SECONDS = 20
BY_HAND_SECONDS = 600
MAX_INPUT_BYTES = 4000
INPUT_TIMEOUT_S = 10
MEMORY_LIMIT_MB = 2048
TOLD_LINES = 20


def directory() -> Path:
    return paths.BUILD / "fuzz"


def build(step) -> list[Path]:
    """The built entries."""
    tree = directory()
    env = {**CLANG, **engine.ccache_env(paths.ROOT)}
    command = ["cmake", "-S", paths.ROOT, "-B", tree, "-G", "Ninja", "-DROUSE_BUILD_FUZZ=ON",
               "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={FLAGS}", *engine.launcher_args()]
    stamp = tree / ".dev-configured"
    text = paths.key_of([str(word) for word in command]) + "\n"
    if not (tree / "build.ninja").exists() or not stamp.exists() or stamp.read_text() != text:
        step.begin("configuring")
        paths.remove(tree / "CMakeCache.txt")
        run_logged(step, command, "configure-fuzz", env=env,
                   what="the fuzz entries could not be configured (package clang-19?)")
        stamp.write_text(text)
    step.begin("building")
    run_logged(step, ["ninja", "-C", tree, "-j", str(engine.jobs())], "build-fuzz", env=env,
               progress=engine.NINJA_PROGRESS, tail=40, what="the fuzz entries did not compile")
    found = entries(tree)
    if not found:
        raise StepFailed(f"no fuzz entry under {tree} after its build")
    step.note(f"{len(found)} entries")
    return found


def entries(tree: Path) -> list[Path]:
    return sorted(path for path in (tree / "tests" / "fuzz").glob("*_fuzz") if path.is_file())


def command_of(entry: Path, seconds: int) -> list[str]:
    name = entry.name.removesuffix("_fuzz")
    corpus = directory() / "corpus" / name
    crashes = directory() / "crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    return [str(entry), f"-max_total_time={seconds}", f"-max_len={MAX_INPUT_BYTES}",
            f"-timeout={INPUT_TIMEOUT_S}", f"-rss_limit_mb={MEMORY_LIMIT_MB}",
            f"-artifact_prefix={crashes}/{name}-", str(corpus),
            str(entry.parent / f"{name}_seeds")]


def run_one(entry: Path, seconds: int) -> tuple[int, str]:
    """How many inputs were tried, and "" or what broke the entry."""
    log = log_path(f"fuzz-{entry.name}")
    with open(log, "w", encoding="utf-8") as stream:
        status = children.wait(children.start(
            command_of(entry, seconds), stdin=subprocess.DEVNULL, stdout=stream,
            stderr=subprocess.STDOUT))
    text = log.read_text(errors="replace")
    done = re.search(r"^Done (\d+) runs", text, re.MULTILINE)
    if status == 0 and done and int(done.group(1)) > 0:
        return int(done.group(1)), ""
    kept = re.search(r"Test unit written to (\S+)", text)
    said = next((line for line in text.splitlines() if "ERROR:" in line or "runtime error" in line),
                f"status {status}")
    return 0, (f"{entry.name}: {said.strip()[:160]}\n"
               f"  input: {kept.group(1) if kept else 'none was kept'}\n  log:   {log}"
               + in_base64(text))


def in_base64(log: str) -> str:
    """The input itself where libFuzzer printed it (a short one): enough to find the fault again
    when nothing but the output of a machine is left."""
    printed = re.search(r"^Base64: (\S+)$", log, re.MULTILINE)
    return f"\n  base64: {printed.group(1)}" if printed else ""


def run(step, found: list[Path], seconds: int) -> None:
    """Each entry for so many seconds, as many at once as there are processors."""
    step.begin(f"{len(found)} entries, {seconds} s each")
    tried, broken = 0, []
    with concurrent.futures.ThreadPoolExecutor(engine.jobs()) as pool:
        futures = [pool.submit(run_one, entry, seconds) for entry in found]
        try:
            for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
                count, failure = future.result()
                tried += count
                if failure:
                    broken.append(failure)
                step.progress(done, len(found))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end_all()
            raise
    if broken:
        raise StepFailed(f"{len(broken)} of {len(found)} fuzz entries broke", None, None,
                         "\n".join(sorted(broken)).splitlines()[:TOLD_LINES])
    step.note(f"{len(found)} entries, {tried / 1e6:.1f} million inputs")
