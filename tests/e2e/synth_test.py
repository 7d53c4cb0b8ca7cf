"""`rouse synth`: files that a real server loads, whole or not there at all."""
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest


def test_the_same_seed_gives_the_same_file_and_another_seed_another(run_rouse, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        answer = run_rouse("synth", tmp_path / name, "--like", "tiny", "--vocab", "32k",
                           "--seed", seed, "--json")
        assert answer.status == 0, answer.stderr
        assert answer.json()["bytes"] == (tmp_path / name).stat().st_size
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("like, quant, vocabulary, megabytes", [
    ("llama-1b", "q4_0", "128k", (695, 710)),
    ("qwen-0.5b", "q4_0", "128k", (255, 285)),
    ("moe-small", "q4_0", "32k", (370, 385)),
])
def test_a_file_has_the_size_of_its_shape(run_rouse, tmp_path, like, quant, vocabulary, megabytes):
    path = tmp_path / "m.gguf"
    answer = run_rouse("synth", path, "--like", like, "--quant", quant, "--vocab", vocabulary,
                       timeout=110)
    assert answer.status == 0, answer.stderr
    assert megabytes[0] <= path.stat().st_size / 1e6 <= megabytes[1]
    assert "weights" in answer.stdout and "/s)" in answer.stdout
    path.unlink()


@pytest.mark.parametrize("quant", ["q4_0", "q8_0", "f16"])
def test_the_built_in_server_loads_it_and_answers(run_rouse, start_server, tmp_path, quant):
    path = tmp_path / "m.gguf"
    assert run_rouse("synth", path, "--like", "tiny", "--quant", quant).status == 0
    server = start_server("--model", path, "--context", 256)
    answer = run_rouse("probe", server.url, "--max-tokens", 4, "--json")
    assert answer.status == 0, answer.stdout + answer.stderr + server.stderr()
    assert answer.json()["outcome"] == "ok"
    assert answer.json()["ttft_ns"] > 0


@pytest.mark.parametrize("like", ["tiny", "moe-small", "qwen-0.5b"])
def test_llama_server_loads_it_and_answers(run_rouse, llama_server, tmp_path, free_port, like):
    path = tmp_path / "m.gguf"
    assert run_rouse("synth", path, "--like", like, "--vocab", "32k", timeout=110).status == 0
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen(
            [str(llama_server), "-m", str(path), "--port", str(free_port), "-c", "256", "-np", "1",
             "--fit", "off", "--no-warmup", "-t", "1"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            answer = run_rouse("probe", f"http://127.0.0.1:{free_port}", "--max-tokens", 2)
            if answer.status == 0 or time.monotonic() > deadline:
                break
            assert server.poll() is None, (tmp_path / "log").read_text(errors="replace")[-2000:]
            time.sleep(0.2)
        assert answer.status == 0, (tmp_path / "log").read_text(errors="replace")[-2000:]
    finally:
        server.terminate()
        server.wait(20)


def test_it_does_not_replace_a_file_unasked(run_rouse, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_text("precious")
    answer = run_rouse("synth", path, "--like", "tiny")
    assert answer.status == 3
    assert "--force" in answer.stderr
    assert path.read_text() == "precious"
    assert run_rouse("synth", path, "--like", "tiny", "--vocab", "32k", "--force").status == 0
    assert path.read_bytes().startswith(b"GGUF")


@pytest.mark.parametrize("arguments, words", [
    (["--like", "lama-1b"], ["lama-1b", "llama-1b"]),
    (["--quant", "q5_0"], ["q5_0", "q4_0, q8_0, f16"]),
    (["--vocab", "64k"], ["64k", "128k, 32k"]),
    (["--seed", "x"], ["--seed"]),
    ([], ["OUT.gguf"]),
])
def test_mistakes_exit_2_and_name_what_there_is(run_rouse, tmp_path, arguments, words):
    target = [tmp_path / "m.gguf"] if arguments else []
    answer = run_rouse("synth", *target, *arguments)
    assert answer.status == 2
    assert answer.stdout == ""
    for word in words:
        assert word in answer.stderr
    assert list(tmp_path.glob("m.gguf*")) == []


def test_a_missing_folder_exits_3(run_rouse, tmp_path):
    answer = run_rouse("synth", tmp_path / "none" / "m.gguf", "--like", "tiny")
    assert answer.status == 3
    assert f"there is no folder {tmp_path / 'none'}" in answer.stderr


def limit_file_size() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_without_room_nothing_is_left_and_the_bytes_are_named(rouse, environment, tmp_path):
    """A limit on file sizes stands for the full disk; the next test has a real one."""
    path = tmp_path / "m.gguf"
    answer = subprocess.run([str(rouse), "synth", str(path), "--like", "tiny"], text=True,
                            capture_output=True, env=environment, timeout=60, check=False,
                            preexec_fn=limit_file_size, restore_signals=False)
    assert answer.returncode == 3
    assert str(path) in answer.stderr and "bytes wanted" in answer.stderr
    assert list(tmp_path.glob("m.gguf*")) == []


def test_a_full_disk_names_the_file_and_the_bytes_free(rouse, environment, tmp_path):
    """On a file system of 4 MB, mounted in a namespace of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    script = (f"mount -t tmpfs -o size=4m none {folder} && {rouse} synth {folder}/m.gguf "
              f"--like tiny --quiet; status=$?; ls -A {folder}; exit $status")
    answer = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
                            text=True, capture_output=True, env=environment, timeout=60,
                            check=False)
    if "unshare" in answer.stderr or "mount:" in answer.stderr:
        pytest.skip("no user namespaces here: " + answer.stderr.strip())
    assert answer.returncode == 3, answer.stderr
    assert f"{folder}/m.gguf" in answer.stderr
    assert "No space left on device" in answer.stderr
    assert "bytes wanted" in answer.stderr and "free" in answer.stderr
    assert answer.stdout == "", "something was left behind"


@pytest.mark.parametrize("signal_number, status", [(signal.SIGINT, 130),
                                                   (signal.SIGKILL, -signal.SIGKILL)])
def test_ending_it_leaves_nothing_behind(rouse, environment, tmp_path, signal_number, status):
    path = tmp_path / "m.gguf"
    process = subprocess.Popen([str(rouse), "synth", str(path), "--like", "llama-1b", "--quant",
                                "f16"], stderr=subprocess.DEVNULL, env=environment)
    try:
        deadline = time.monotonic() + 60
        while written_bytes(process.pid) < 20_000_000:  # it is in the middle of the tensor data
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal_number)
        assert process.wait(60) == status
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(20)
    assert list(tmp_path.glob("m.gguf*")) == []


def written_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in text.splitlines())["wchar"])
