"""The commands of ./dev."""
import os
import signal
import sys

from devlib import build, checks, debian, engine, fetch, fuzz, paths, peers, venv, web
from devlib.report import Report, StepFailed

HELP = """\
./dev sets up, builds, runs and tests rouse on Debian 12.

  ./dev run [ARGS]      set up what is missing, build, and measure: rouse measure (preset quick).
                        ARGS go to rouse:  ./dev run serve   ./dev run measure --preset layers
                        ARGS that begin with a flag go to rouse measure:  ./dev run --repeat 12
  ./dev test [ARGS]     the same set-up, then every test: layers, format, lint, build, unit tests,
                        20 s of fuzzing of each parser, end-to-end tests (with real servers as
                        peers, and a browser for the report page). ARGS go to pytest:
                        ./dev test -k serve
  ./dev check           the same without fuzzing and the end-to-end tests; for every commit
  ./dev fuzz [SECONDS]  fuzz each parser for SECONDS (default 600), once per release; what breaks
                        one is kept in build/fuzz/crashes
  ./dev build [TARGET]  set up and build (everything, or TARGET)
  ./dev fmt             format all C++ files in place
  ./dev bench [NAME]    build and run a benchmark of bench/, or list them
  ./dev peers           build every real server that tests and benchmarks compare with, Ollama too
                        (a Go compiler, 15 minutes and 1 GB once); without it they do without it
  ./dev clean [--cache] remove build/; with --cache also the per-user cache (engine, model, tools)
  ./dev help            this text

Options of run, build, check, test, bench and peers:
  --preset NAME         release (default), debug, asan or tsan: build/NAME
  -DNAME=VALUE          a CMake variable, kept for later commands until ./dev clean, such as
                        -DROUSE_LLAMA_SOURCE=DIR    build this llama.cpp instead of the pinned one
                        -DCMAKE_PREFIX_PATH=DIR     use the llama.cpp that is installed there
                        -DROUSE_ENGINE_FLAGS=-DGGML_CUDA=ON    options of the pinned llama.cpp
                        -DROUSE_WEB=OFF             no report page, and so no --html (and no Node)

Installs Debian packages (tools/debian-packages.txt) as root or with sudo, and asks nothing when
stdin is no terminal. Everything else stays in build/ and in the per-user cache: $ROUSE_CACHE, else
$XDG_CACHE_HOME/rouse, else ~/.cache/rouse. Every step writes its log to build/logs/.
"""


def take_options(words: list[str]) -> tuple[build.Configuration, list[str]]:
    """Takes --preset and -D out of the words; the rest is the command's."""
    preset, given, rest = "release", [], []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += words
            break
        if word == "--preset" and words and words[0] in ("release", "debug", "asan", "tsan"):
            preset = words.pop(0)
        elif word.startswith("-D") and len(word) > 2:
            given.append(word)
        else:
            rest.append(word)
    return build.Configuration(preset, given), rest


def set_up(report: Report, configuration: build.Configuration, groups=("run",)):
    """The steps that every building command begins with; returns the engine's prefix or None."""
    report.step("Debian packages", lambda step: debian.ensure(step, groups))
    if "test" in groups:
        report.step("Python tools", lambda step: venv.ensure(step, "test"))
    if web.wanted(configuration.arguments):
        report.step("report page", web.pages)
    return build.set_up_engine(report, configuration)


def command_run(words: list[str]) -> int:
    configuration, rest = take_options(words)
    report = Report(total=5 + web.steps(configuration.arguments, 1))
    prefix = set_up(report, configuration)
    report.step("model", fetch.model)
    report.step("rouse", lambda step: build.build(step, configuration, prefix, ["rouse"]))
    report.finish()
    flags_of_rouse = ("--help", "-h", "--version")
    if not rest or (rest[0].startswith("-") and rest[0] not in flags_of_rouse):
        rest = ["measure", *rest]
    binary = str(build.rouse_binary(configuration))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(binary, [binary, *rest])


def command_build(words: list[str]) -> int:
    configuration, rest = take_options(words)
    report = Report(total=4 + web.steps(configuration.arguments, 1))
    prefix = set_up(report, configuration)
    report.step("rouse", lambda step: build.build(step, configuration, prefix, rest or ["all"]))
    report.finish()
    return 0


def command_check(words: list[str]) -> int:
    configuration, rest = take_options(words)
    if rest:
        return usage(f"check takes no argument {rest[0]}")
    report = Report(total=11 + web.steps(configuration.arguments, 2))
    prefix = set_up(report, configuration, ("run", "test"))
    return checks.run_checks(report, configuration, prefix)


def command_test(words: list[str]) -> int:
    configuration, rest = take_options(words)
    report = Report(total=15 + web.steps(configuration.arguments, 3))
    prefix = set_up(report, configuration, ("run", "test"))
    model = report.step("model", fetch.model)
    peer = report.step("llama-server", lambda step: engine.llama_server(
        step, configuration.engine_flags()))
    others = report.step("other servers", lambda step: peers.ensure(
        step, configuration.engine_flags()))
    if web.wanted(configuration.arguments):
        others = {**others, **report.step("browser tests", web.test_env)}
    return checks.run_checks(report, configuration, prefix,
                             end_to_end={"model": model, "peer": peer, "peers": others,
                                         "arguments": rest})


def command_fuzz(words: list[str]) -> int:
    if len(words) > 1 or (words and not words[0].isdigit()) or words == ["0"]:
        return usage(f"fuzz takes a number of seconds, not {' '.join(words)}")
    seconds = int(words[0]) if words else fuzz.BY_HAND_SECONDS
    report = Report(total=3)
    report.step("Debian packages", lambda step: debian.ensure(step, ("run", "test")))
    entries = report.step("fuzz build", fuzz.build)
    report.step("fuzzing", lambda step: fuzz.run(step, entries, seconds))
    report.finish()
    return 0


def command_fmt(words: list[str]) -> int:
    if words:
        return usage(f"fmt takes no argument {words[0]}")
    report = Report(total=2)
    report.step("Python tools", lambda step: venv.ensure(step, "test"))
    report.step("format", checks.format_in_place)
    report.finish()
    return 0


def command_bench(words: list[str]) -> int:
    configuration, rest = take_options(words)
    names = checks.benchmarks()
    if not rest:
        print("\n".join(names) or "There is no benchmark yet.")
        return 0
    if rest[0] not in names:
        return usage(f"no benchmark {rest[0]}; there are: {', '.join(names) or 'none'}")
    report = Report(total=8 + web.steps(configuration.arguments, 2))
    prefix = set_up(report, configuration, ("run", "test"))
    model = report.step("model", fetch.model)
    peer = report.step("llama-server", lambda step: engine.llama_server(
        step, configuration.engine_flags()))
    others = report.step("other servers", lambda step: peers.for_benchmarks(
        step, configuration.engine_flags()))
    if web.wanted(configuration.arguments):
        others = {**others, **report.step("browser tests", web.test_env)}
    report.step("rouse", lambda step: build.build(step, configuration, prefix, ["all"]))
    report.finish()
    return checks.run_benchmark(configuration, rest, model, peer, others)


def command_peers(words: list[str]) -> int:
    configuration, rest = take_options(words)
    if rest:
        return usage(f"peers takes no argument {rest[0]}")
    report = Report(total=6)
    report.step("Debian packages", lambda step: debian.ensure(step, ("run", "test")))
    report.step("llama-server", lambda step: engine.llama_server(
        step, configuration.engine_flags()))
    return peers.build_all(report, configuration.engine_flags())


def command_clean(words: list[str]) -> int:
    if words not in ([], ["--cache"]):
        return usage(f"clean takes --cache only, not {' '.join(words)}")
    doomed = [paths.BUILD]
    if words:
        # Only what ./dev put there: models that the user added stay.
        cache = paths.cache_dir()
        pin = paths.pins()["model"]["file"]
        doomed += [cache / name for name in ("engine", "peers", "venv", "ccache", "lint", "tmp",
                                          "test-models", "web", "locks", "sha256")]
        doomed += [cache / "models" / pin, cache / "models" / f".{pin}.checked"]
    for path in doomed:
        if path.exists():
            print(f"removing {path}")
            paths.remove(path)
    return 0


def command_help(_words: list[str]) -> int:
    print(HELP, end="")
    return 0


COMMANDS = {
    "run": command_run,
    "test": command_test,
    "check": command_check,
    "build": command_build,
    "fmt": command_fmt,
    "bench": command_bench,
    "peers": command_peers,
    "fuzz": command_fuzz,
    "clean": command_clean,
    "help": command_help,
    "--help": command_help,
    "-h": command_help,
}


def usage(message: str) -> int:
    sys.stderr.write(f"dev: {message}\nSee ./dev help.\n")
    return 2


def interrupt(*_unused) -> None:
    raise KeyboardInterrupt


def main(words: list[str]) -> int:
    if not words:
        command_help([])
        return 2
    if words[0] not in COMMANDS:
        return usage(f"no command {words[0]}")
    before = signal.signal(signal.SIGTERM, interrupt)  # ends a step as Ctrl-C does
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # In the background of a script: what is started from here would ignore it too, and could
        # not be told to unwind.
        signal.signal(signal.SIGINT, lambda *_unused: None)
    try:
        paths.drop_scratch_of_killed()
        return COMMANDS[words[0]](words[1:])
    except StepFailed:
        return 1  # told where it happened
    except KeyboardInterrupt:
        sys.stderr.write("\ndev: interrupted; what was finished is kept\n")
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
