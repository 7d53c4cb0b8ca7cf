"""The checks and tests of ./dev check and ./dev test. All of them run, also after one has failed,
so that one run tells everything; only a failed build ends it at once."""
import os
import sys
from pathlib import Path

from devlib import build, children, engine, fuzz, lint, paths, venv, web
from devlib.report import Report, StepFailed, log_path, run_logged

CXX_FOLDERS = ("src", "tests", "bench")
BENCHMARK_PATIENCE_S = 30  # it ends servers and loads, and removes its files


def cxx_files() -> list[Path]:
    return sorted(path for folder in CXX_FOLDERS for path in (paths.ROOT / folder).rglob("*")
                  if path.suffix in (".cc", ".h") and path.is_file())


def layers(step) -> None:
    step.begin("folders, includes, limits")
    run_logged(step, [sys.executable, paths.ROOT / "tools" / "check_layers.py"], "layers",
               what="the layout or a limit is broken")


def clang_format(step) -> Path:
    return venv.program(venv.ensure(step, "test"), "clang-format")


def format_check(step) -> None:
    files = cxx_files()
    step.begin(f"clang-format, {len(files)} files")
    try:
        run_logged(step, [clang_format(step), "--dry-run", "-Werror", *files], "format",
                   tail=None, what="not formatted: ./dev fmt")
    except StepFailed as failure:
        # Which files, not each of their lines.
        named = {line.split(":")[0] for line in failure.tail if ": error:" in line}
        failure.tail = sorted(os.path.relpath(name, paths.ROOT) for name in named)
        raise


RUFF_RULES = ["--select", "E9,F,B,PLE,W605", "--ignore", "B905"]


def python_lint(step) -> None:
    """Undefined and unused names, and what the interpreter itself would warn of."""
    step.begin("ruff")
    ruff = venv.program(venv.ensure(step, "test"), "ruff")
    run_logged(step, [ruff, "check", "--no-cache", *RUFF_RULES, "dev", "tools", "tests", "bench"],
               "ruff", cwd=paths.ROOT, tail=40, what="ruff found faults in Python files")


def format_in_place(step) -> None:
    files = cxx_files()
    step.begin(f"clang-format, {len(files)} files")
    run_logged(step, [clang_format(step), "-i", *files], "fmt", what="clang-format failed")


def summary_of(log_name: str, *marks: str) -> list[str]:
    log = log_path(log_name)
    if not log.exists():
        return []
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if any(mark in line for mark in marks)][-1:]


def unit_tests(step, configuration) -> None:
    step.begin("ctest")
    lines = run_logged(
        step,
        ["ctest", "--test-dir", configuration.directory, "--output-on-failure", "--no-tests=error",
         "-j", str(engine.jobs())],
        "ctest", progress=r"^\s*(\d+)/(\d+) Test", tail=60, what="unit tests failed")
    total = [line for line in lines if "tests passed" in line]
    step.note(total[-1] if total else "ok")


def python_tests(step, configuration, arguments, log_name, extra_env=None) -> None:
    environment = venv.ensure(step, "test")
    step.begin("pytest " + " ".join(arguments))
    lines = run_logged(
        step, [venv.program(environment, "python"), "-m", "pytest", *arguments],
        log_name, cwd=paths.ROOT, tail=80, what="tests failed",
        env={"ROUSE_BINARY": str(build.rouse_binary(configuration)),
             "PYTHONDONTWRITEBYTECODE": "1", **(extra_env or {})})
    step.note(lines[-1].strip("= ") if lines else "ok")


def test_env(configuration, model, peer) -> dict:
    return {"ROUSE_BINARY": str(build.rouse_binary(configuration)), "ROUSE_MODEL": str(model),
            "ROUSE_LLAMA_SERVER": str(peer)}


def run_checks(report: Report, configuration, prefix, end_to_end=None) -> int:
    report.check("layers", layers)
    report.check("format", format_check)
    report.check("Python lint", python_lint)
    report.step("rouse", lambda step: build.build(step, configuration, prefix, ["all"]))
    report.check("lint", lambda step: lint.run(step, configuration.directory, cxx_files()))
    report.check("unit tests", lambda step: unit_tests(step, configuration))
    if web.wanted(configuration.arguments):
        report.check("page's unit tests", web.test)
    summaries = summary_of("ctest", "tests passed", "tests failed")
    if end_to_end:
        report.check("fuzzing", lambda step: fuzz.run(step, fuzz.build(step), fuzz.CI_SECONDS))
        env = {**test_env(configuration, end_to_end["model"], end_to_end["peer"]),
               **end_to_end["peers"]}
        report.check("end-to-end tests", lambda step: python_tests(
            step, configuration, end_to_end["arguments"], "pytest", env))
    else:
        report.check("tests of tools/", lambda step: python_tests(
            step, configuration, ["tools"], "pytest"))
    summaries += summary_of("pytest", " passed", " failed", " error", "no tests ran")
    report.finish()
    for line in summaries:
        print(line)
    if report.failures:
        print(f"FAILED: {', '.join(report.failures)} ({paths.LOGS})")
        return 1
    return 0


def benchmarks() -> list[str]:
    """bench/NAME.cc is a program NAME of build/PRESET/bench; bench/NAME.py runs with the tools'
    Python."""
    folder = paths.ROOT / "bench"
    return sorted({path.stem for path in folder.glob("*") if path.suffix in (".cc", ".py")})


def run_benchmark(configuration, words, model, peer, others) -> int:
    name, *rest = words
    script = paths.ROOT / "bench" / f"{name}.py"
    if script.exists():
        directory = Report(total=1).step("Python tools", lambda step: venv.ensure(step, "test"))
        command = [str(venv.program(directory, "python")), str(script), *rest]
    else:
        program = configuration.directory / "bench" / name
        if not program.exists():
            raise StepFailed(f"{program} was not built; bench/CMakeLists.txt lists the benchmarks")
        command = [str(program), *rest]
    env = {**os.environ, **test_env(configuration, model, peer), **others}
    # A session: bench/explain.py sets the priority of its own.
    process = children.start(command, session=True, env=env, cwd=paths.ROOT)
    try:
        return children.wait(process)
    except KeyboardInterrupt:
        children.end(process, BENCHMARK_PATIENCE_S)
        raise


