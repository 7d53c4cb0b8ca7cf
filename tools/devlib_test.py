"""The parts of ./dev that can be tested without installing anything."""
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from devlib import (  # noqa: E402
    build, checks, children, debian, engine, fetch, fuzz, lint, main, ollama, paths, peers, report)


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")


def test_steps_are_numbered_lines_when_stderr_is_no_terminal(capsys):
    told = report.Report(total=2)
    told.step("first", lambda step: step.begin("working"))
    told.step("second", lambda step: step.note("ok"))
    told.finish()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[1/2] first               working ..."
    assert lines[1].startswith("[1/2] first               working  ")
    assert lines[1].endswith(" s")
    assert lines[2].startswith("[2/2] second              ok  ")


def test_steps_without_work_are_one_line_together(capsys):
    told = report.Report(total=2)
    told.step("first", lambda step: step.note("there"))
    told.step("second", lambda step: None)
    told.finish()
    assert capsys.readouterr().err.startswith("2 set-up steps: all in place, 0.0 s\n")


def test_a_failed_step_names_itself_its_command_its_log_and_the_last_lines(capsys):
    told = report.Report(total=1)
    with pytest.raises(report.StepFailed):
        told.step("engine build", lambda step: report.run_logged(
            step, ["sh", "-c", "echo broken; exit 7"], "try"))
    text = capsys.readouterr().err
    assert "[1/1] engine build        FAILED" in text
    assert "sh ended with status 7" in text
    assert "command: sh -c 'echo broken; exit 7'" in text
    assert f"log:     {paths.LOGS / 'try.log'}" in text
    assert "| broken" in text
    assert (paths.LOGS / "try.log").read_text() == "$ sh -c 'echo broken; exit 7'\nbroken\n"


def test_the_lines_shown_begin_at_the_first_failed_compilation():
    lines = ["[1/9] a", "FAILED: x.o", "x.cc:1: error", "[2/9] b", "[3/9] c"]
    assert report.telling(lines, 2) == ["FAILED: x.o", "x.cc:1: error"]
    assert report.telling(lines[3:], 1) == ["[3/9] c"]
    assert report.telling(lines, None) == lines


def test_a_failed_check_is_counted_and_the_next_one_still_runs(capsys):
    told = report.Report(total=2)
    assert not told.check("one", lambda step: report.run_logged(step, ["false"], "one"))
    assert told.check("two", lambda step: None)
    assert told.failures == ["one"]
    assert "FAILED" in capsys.readouterr().err


def test_a_command_that_is_not_there_is_a_failed_step():
    with pytest.raises(report.StepFailed, match="No such file"):
        report.run_logged(None, ["/nowhere/at-all"], "none")


def test_progress_is_read_from_the_output(tmp_path):
    seen = []

    class Step:
        def progress(self, done, total):
            seen.append((done, total))

    report.run_logged(Step(), ["printf", "[1/4] a\\nnoise\\n[4/4] b\\n"], "progress",
                      progress=engine.NINJA_PROGRESS)
    assert seen == [(1, 4), (4, 4)]


def test_the_list_of_packages_leaves_out_what_a_command_provides(monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: "/x" if name == "cmake" else None)
    run = debian.wanted(("run",))
    assert "libssl-dev" in run
    assert "cmake" not in run
    assert "ninja-build" in run
    assert "strace" not in run
    assert "strace" in debian.wanted(("run", "test"))


def test_without_root_or_sudo_the_exact_command_is_told(monkeypatch):
    monkeypatch.setattr(debian, "missing", lambda packages: ["libssl-dev"])
    monkeypatch.setattr(debian.os, "geteuid", lambda: 1000)
    real_which = debian.shutil.which
    monkeypatch.setattr(debian.shutil, "which",
                        lambda name: None if name == "sudo" else real_which(name))
    with pytest.raises(report.StepFailed) as failure:
        debian.ensure(report.Step(report.Report(1), 1, "x"), ("run",))
    assert failure.value.command == "apt-get update && apt-get install libssl-dev"


def make_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("top/vendor/llama.cpp/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)


def test_only_the_wanted_subtree_is_unpacked_and_nothing_outside(tmp_path):
    make_tar(tmp_path / "a.tar.gz", {
        "top/vendor/llama.cpp/include/llama.h": b"h", "top/vendor/llama.cpp/.git/HEAD": b"x",
        "top/setup.py": b"no", "top/vendor/llama.cppx/y": b"no",
        "top/vendor/llama.cpp/../../../../evil": b"no"})
    fetch.extract_tree(tmp_path / "a.tar.gz", "vendor/llama.cpp", tmp_path / "out")
    assert [str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")
            if path.is_file()] == ["include/llama.h"]
    assert not (tmp_path.parent / "evil").exists()


def test_a_model_file_that_changed_after_its_check_is_not_taken_for_checked(tmp_path):
    target, pin = tmp_path / "m.gguf", {"file_sha256": "aa"}
    target.write_bytes(b"model")
    assert not fetch.is_checked(target, pin)
    fetch.mark_checked(target, pin)
    assert fetch.is_checked(target, pin)
    target.write_bytes(b"other")
    os.utime(target, ns=(1, 1))
    assert not fetch.is_checked(target, pin)


def test_the_engine_directory_depends_on_source_flags_compiler_and_processor(monkeypatch):
    source = Path("/x/source-1")
    first = engine.directory_for(source, [])
    assert first == engine.directory_for(source, [])
    others = {engine.directory_for(Path("/x/source-2"), []),
              engine.directory_for(source, ["-DGGML_CUDA=ON"])}
    monkeypatch.setattr(engine, "cpu_facts", lambda: ["another processor"])
    others.add(engine.directory_for(source, []))
    monkeypatch.setattr(engine, "compiler_facts", lambda: ["another compiler"])
    others.add(engine.directory_for(source, []))
    assert len(others | {first}) == 5


def test_two_at_once_wait_for_each_other():
    order = []

    def second():
        with paths.locked("thing"):
            order.append("second")

    with paths.locked("thing"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_cmake_variables_are_kept_for_the_next_command_and_split_from_engine_flags():
    given = ["-DROUSE_ENGINE_FLAGS=-DGGML_CUDA=ON -DGGML_LTO=ON", "-DROUSE_LLAMA_SOURCE=/src"]
    configuration, rest = main.take_options(["--preset", "debug", *given, "rouse", "--", "-DX"])
    assert rest == ["rouse", "-DX"]
    assert configuration.directory == paths.BUILD / "debug"
    assert configuration.engine_flags() == ["-DGGML_CUDA=ON", "-DGGML_LTO=ON"]
    assert configuration.cmake_arguments() == ["-DROUSE_LLAMA_SOURCE=/src"]
    assert configuration.own_engine() == "/src"
    assert build.Configuration("debug", []).arguments == given
    assert build.Configuration("release", []).arguments == []


def test_options_of_rouse_are_not_taken(monkeypatch):
    configuration, rest = main.take_options(["--preset", "layers", "--repeat", "12"])
    assert rest == ["--preset", "layers", "--repeat", "12"]
    assert configuration.preset == "release"


def test_lint_looks_again_when_an_included_header_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    (tmp_path / "src" / "base").mkdir(parents=True)
    for name, text in (("a.cc", '#include "base/b.h"\n'), ("b.h", '#include "base/c.h"\n'),
                       ("c.h", '#include "base/b.h"\n#include <x>\n'), ("d.h", "")):
        (tmp_path / "src" / "base" / name).write_text(text)
    found = lint.project_includes(tmp_path / "src" / "base" / "a.cc", {})
    assert sorted(path.name for path in found) == ["a.cc", "b.h", "c.h"]


def test_the_pins_are_complete():
    known = paths.pins()
    assert known.pop("ollama")["sum"].startswith("h1:")  # a Go module: Go's own hash
    for name, pin in known.items():
        assert "==" in pin["package"], name
        assert len(pin["sha256"]) == 64, name
    for requirements in ROOT.glob("tools/requirements-*.txt"):
        entries = [line for line in requirements.read_text().splitlines()
                   if line and not line.startswith((" ", "#"))]
        assert entries
        assert all("==" in entry and entry.endswith("\\") for entry in entries), requirements


@pytest.mark.parametrize(("words", "status", "said"), [
    (["help"], 0, "./dev run"), ([], 2, "./dev run"), (["tets"], 2, "no command tets"),
    (["clean", "everything"], 2, "clean takes --cache only"), (["fmt", "x"], 2, "no argument x"),
    (["fuzz", "long"], 2, "a number of seconds"), (["fuzz", "0"], 2, "a number of seconds"),
])
def test_the_command_line(words, status, said):
    answer = subprocess.run([ROOT / "dev", *words], capture_output=True, text=True, check=False)
    assert answer.returncode == status
    assert said in answer.stdout + answer.stderr


def test_clean_removes_the_cache_that_dev_made_and_keeps_models_of_the_user(tmp_path, capsys):
    cache = paths.cache_dir()
    pinned = paths.pins()["model"]["file"]
    for name in (f"models/{pinned}", "models/mine.gguf", "engine/x", "lint/y",
                 "sha256/0123"):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_text("x")
    assert main.main(["clean"]) == 0
    assert (cache / "engine" / "x").exists()
    assert main.main(["clean", "--cache"]) == 0
    assert [str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()] == [
        "models/mine.gguf"]
    assert "removing" in capsys.readouterr().out


def test_scratch_of_a_killed_run_is_dropped_a_day_later(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    folder = paths.cache_dir() / "tmp"
    for name in (f"old-{gone.pid}", f"new-{gone.pid}", f"alive-{os.getpid()}", "no-number"):
        (folder / name / "inside").mkdir(parents=True)
        if not name.startswith("new"):
            os.utime(folder / name, (1, 1))
    assert main.main(["clean"]) == 0
    assert {path.name for path in folder.iterdir()} == {
        f"new-{gone.pid}", f"alive-{os.getpid()}", "no-number"}


# Takes half a second to unwind, says so in more words than a pipe holds, and has a child that
# heeds nothing.
UNWINDS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, time\\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
    "print(flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
child.stdout.readline()
try:
    open("begun.new", "w").write(str(child.pid))
    os.rename("begun.new", "begun")
    time.sleep(600)
finally:
    time.sleep(0.5)
    print("x" * 200_000)
    open("unwound", "w").write("")
"""

# As ./dev does, with a step or a benchmark that runs UNWINDS in the folder.
DEV = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from devlib import checks, main, paths, report, venv
paths.LOGS = Path("logs").absolute()
paths.ROOT = Path.cwd()
venv.ensure = lambda step, group: None
venv.program = lambda directory, name: sys.executable
def command(words):
    if words == ["step"]:
        report.Report(1).step("tests", lambda step: report.run_logged(
            step, [sys.executable, "bench/unwinds.py"], "tests"))
    return checks.run_benchmark(None, ["unwinds"], "", "", {})
checks.test_env = lambda *unused: {}
main.COMMANDS["do"] = command
sys.exit(main.main(["do", *sys.argv[2:]]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("what", ["step", "benchmark"])
def test_a_signal_for_dev_alone_lets_its_child_unwind_and_leaves_nothing(tmp_path, what, number):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "unwinds.py").write_text(UNWINDS)
    dev = subprocess.Popen([sys.executable, "-c", DEV, str(ROOT / "tools"), what], cwd=tmp_path,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "begun").exists():
            assert dev.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        grandchild = int((tmp_path / "begun").read_text())
        dev.send_signal(number)
        _, errors = dev.communicate(timeout=15)
    finally:
        dev.kill()
        dev.wait()
    assert dev.returncode == 130, errors
    assert "dev: interrupted" in errors
    assert (tmp_path / "unwound").exists()
    deadline = time.monotonic() + 10
    while running(grandchild):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if what == "step":
        assert "x" * 200_000 in (tmp_path / "logs" / "tests.log").read_text()


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_does_not_unwind_is_killed_in_the_end():
    stubborn = ("import signal, time\n"
                "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "print(flush=True)\ntime.sleep(600)")
    process = children.start([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    process.stdout.readline()
    before = children.TERM_S
    children.TERM_S = 0.2
    try:
        children.end(process, 0.2)
    finally:
        children.TERM_S = before
    process.stdout.close()
    assert process.returncode == -signal.SIGKILL and process not in children.living


def test_fuzzing_ends_its_entries_when_interrupted(monkeypatch):
    entries = [fuzz_entry(name, "echo $$ > $0.pid; exec sleep 600") for name in ("a", "b")]
    monkeypatch.setattr(fuzz.engine, "jobs", lambda: 2)

    def interrupted(_futures):
        while not all(Path(f"{entry}.pid").exists() for entry in entries):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(fuzz.concurrent.futures, "as_completed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report.Report(1).step("fuzzing", lambda step: fuzz.run(step, entries, 600))
    assert not children.living


def test_arguments_are_stored_as_json():
    configuration = build.Configuration("asan", ["-DA=b c"])
    assert json.loads(configuration.kept_file.read_text()) == ["-DA=b c"]


def test_lint_stops_at_once_when_interrupted(tmp_path, monkeypatch):
    begun = []

    def slow(_tidy, _directory, source):
        begun.append(source)
        time.sleep(0.1)
        return 0, ""

    class Interrupted:
        def progress(self, _done, _total):
            raise KeyboardInterrupt

    monkeypatch.setattr(lint, "tidy_one", slow)
    monkeypatch.setattr(lint.engine, "jobs", lambda: 2)
    pending = [(number, tmp_path / str(number)) for number in range(100)]
    with pytest.raises(KeyboardInterrupt):
        lint.look_at(Interrupted(), Path("tidy"), tmp_path, pending)
    assert 1 <= len(begun) <= 10


def test_the_format_check_names_the_files(monkeypatch, tmp_path):
    tool = tmp_path / "clang-format"
    tool.write_text("#!/bin/sh\nfor f in \"$@\"; do echo \"$f:1:2: error: x\"; echo ' ^'; done\n"
                    "exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(checks, "clang_format", lambda step: tool)
    monkeypatch.setattr(checks, "cxx_files", lambda: [ROOT / "src/b.cc", ROOT / "src/a.cc"])
    with pytest.raises(report.StepFailed, match="./dev fmt") as failure:
        checks.format_check(report.Step(report.Report(1), 1, "format"))
    assert [name for name in failure.value.tail if name.startswith("src")] == ["src/a.cc",
                                                                               "src/b.cc"]


def fuzz_entry(name: str, script: str) -> Path:
    entry = fuzz.directory() / "tests" / "fuzz" / f"{name}_fuzz"
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text(f"#!/bin/sh\n{script}\n")
    entry.chmod(0o755)
    return entry


def test_fuzzing_names_the_entry_that_broke_and_its_input(capsys):
    good = fuzz_entry("good", 'echo "$@" > "$0.args"; echo "Done 1000 runs in 20 second(s)"')
    fuzz_entry("bad", "echo '==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 1'\n"
               "echo 'artifact_prefix=x; Test unit written to /crashes/bad-crash-1'\n"
               "echo 'Base64: SFRUUA=='; exit 77")
    found = fuzz.entries(fuzz.directory())
    assert [path.name for path in found] == ["bad_fuzz", "good_fuzz"]
    told = report.Report(total=1)
    assert not told.check("fuzzing", lambda step: fuzz.run(step, found, 20))
    said = capsys.readouterr().err
    assert "1 of 2 fuzz entries broke" in said
    assert "bad_fuzz: ==1==ERROR: AddressSanitizer: heap-buffer-overflow" in said
    assert "input: /crashes/bad-crash-1" in said
    assert "base64: SFRUUA==" in said
    arguments = good.with_name("good_fuzz.args").read_text()
    assert "-max_total_time=20" in arguments
    assert arguments.strip().endswith("good_seeds")


def test_an_entry_that_tried_nothing_is_a_failure(capsys):
    found = [fuzz_entry("idle", 'echo "Done 0 runs in 1 second(s)"')]
    assert not report.Report(1).check("fuzzing", lambda step: fuzz.run(step, found, 1))
    assert "idle_fuzz: status 0" in capsys.readouterr().err


def test_a_peer_that_cannot_be_had_is_a_reason_and_no_failure(monkeypatch):
    def no(*_arguments):
        raise report.StepFailed("mistralrs could not be downloaded")

    step = report.Step(report.Report(1), 1, "other servers")
    monkeypatch.setattr(peers, "naive", lambda *_arguments: Path("/naive"))
    monkeypatch.setattr(peers.ollama, "built", lambda: None)
    monkeypatch.setattr(peers.venv, "ensure", no)
    always = {"ROUSE_NAIVE": "/naive", "ROUSE_OLLAMA_MISSING":
              "it is not in the cache: ./dev peers builds it (15 minutes)"}
    assert peers.ensure(step, []) == {
        **always, "ROUSE_PEERS_MISSING": "mistralrs could not be downloaded"}
    monkeypatch.setattr(peers.venv, "ensure", lambda *_arguments: Path("/venv"))
    monkeypatch.setattr(peers.venv, "program", lambda directory, name: directory / "bin" / name)
    monkeypatch.setattr(peers, "llama_cpp_python", no)
    assert peers.ensure(step, []) == {
        **always, "ROUSE_PEERS_PYTHON": "/venv/bin/python",
        "ROUSE_LLAMA_CPP_PYTHON_MISSING": "mistralrs could not be downloaded"}
    assert step.text == "mistral.rs"
    monkeypatch.setattr(peers.ollama, "built", lambda: Path("/ollama"))
    monkeypatch.setattr(peers, "naive", no)
    assert peers.for_benchmarks(step, []) == {
        "ROUSE_NAIVE_MISSING": "mistralrs could not be downloaded", "ROUSE_OLLAMA": "/ollama"}


def test_peers_that_cannot_be_built_are_told_and_the_others_are_built(monkeypatch, capsys):
    def no(*_arguments):
        raise report.StepFailed("no Go compiler")

    there = []
    monkeypatch.setattr(peers, "naive", lambda *_arguments: there.append("naive"))
    monkeypatch.setattr(peers, "llama_cpp_python", no)
    monkeypatch.setattr(peers.venv, "ensure", lambda *_arguments: there.append("mistral.rs"))
    monkeypatch.setattr(peers.ollama, "ensure", no)
    assert peers.build_all(report.Report(4), []) == 1
    assert there == ["naive", "mistral.rs"]
    assert "not there: Ollama: no Go compiler\n" in capsys.readouterr().out


def test_of_ollamas_cpu_libraries_only_the_one_that_it_would_pick_is_built():
    def library(flags, machine="x86_64"):
        return ollama.cpu_library(machine, set(flags.split()))

    haswell = "sse4_2 avx avx2 bmi2 fma f16c"
    avx512 = "avx512f avx512cd avx512vl avx512dq avx512bw"
    assert library("sse2") == "ggml-cpu-x64"
    assert library("sse4_2") == "ggml-cpu-sse42"
    assert library("sse4_2 avx") == "ggml-cpu-sandybridge"
    assert library(haswell) == "ggml-cpu-haswell"
    assert library(haswell + " avx_vnni") == "ggml-cpu-alderlake"
    assert library(f"{haswell} {avx512}") == "ggml-cpu-skylakex"
    assert library(f"{haswell} {avx512} avx512vbmi avx512_vnni") == "ggml-cpu-icelake"
    assert library("fphwc", "aarch64") == "ggml-cpu"


@pytest.mark.parametrize("told, why", [("go1.19.8", "needs Go 1.21 or newer; this is go1.19.8"),
                                       ("devel", "this is devel"),
                                       (None, "needs the Go compiler (go) on PATH")])
def test_ollama_says_which_go_it_needs(tmp_path, monkeypatch, told, why):
    if told:
        program = tmp_path / "go"
        program.write_text(f"#!/bin/sh\necho {told}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(report.StepFailed) as failure:
        ollama.go_version()
    assert why in str(failure.value)
