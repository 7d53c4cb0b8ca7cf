"""Model files that can't be used: one sentence that names the file, exit 3, before anything is
mapped; and names that stand for nothing."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))
import gguf_seeds as build  # noqa: E402  (writes little GGUF files)


def with_tensor(*rows, tail=64, entries=()):
    raw = build.head(len(rows), len(entries)) + b"".join(entries)
    return build.padded(raw + b"".join(rows)) + b"\0" * tail


FAULTS = {
    "empty": (b"", "is empty"),
    "html": (b"<!DOCTYPE html><html>Not found</html>", "looks like an HTML page"),
    "safetensors": (build.u64(40) + b'{"__metadata__":{}}' + b" " * 40, "a safetensors file"),
    "zip": (b"PK\x03\x04" + b"\0" * 60, "a zip archive"),
    "old_ggml": (b"tjgg" + b"\0" * 60, "an old GGML file"),
    "lfs_pointer": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    "version_1": (build.head(0, 0, 1), "is GGUF version 1"),
    "version_9": (build.head(0, 0, 9), "is GGUF version 9"),
    "big_endian": (b"GGUF\0\0\0\3" + b"\0" * 16, "big-endian"),
    "header_cut": (build.head(3, 5) + build.text("general.archi")[:12], "is cut off"),
    "huge_counts": (build.head(2**63, 2**63), "metadata entries, more than"),
    "huge_string": (build.head(0, 1) + build.u64(2**63) + b"\0" * 40, "are left in the file"),
    "huge_array": (build.head(0, 1) + build.entry("a", 9, build.u32(10) + build.u64(2**61)),
                   "elements, more than"),
    "data_cut": (with_tensor(build.tensor("a", [1024], 0, 0)), "is cut off: its tensors need"),
    "beyond_the_file": (with_tensor(build.tensor("a", [8], 0, 2**40)), "its tensors need"),
    "beyond_all_files": (with_tensor(build.tensor("a", [8], 0, 2**63)), "begins at byte"),
    "overlap": (with_tensor(build.tensor("a", [16], 0, 0), build.tensor("b", [8], 0, 32)),
                "overlaps"),
    "misaligned": (with_tensor(build.tensor("a", [8], 0, 4)), "not a multiple of 32"),
    "unknown_type": (with_tensor(build.tensor("a", [8], 99, 0)), "unknown type 99"),
    "huge_shape": (with_tensor(build.tensor("a", [2**31, 2**31, 2**31], 0, 0)), "impossible shape"),
    "twice": (with_tensor(build.tensor("a", [8], 0, 0), build.tensor("a", [8], 0, 32)),
              "stands there twice"),
}


def expect_one_sentence(answer, path, words):
    assert answer.status == 3, answer.stderr
    lines = [line for line in answer.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, answer.stderr
    assert str(path) in lines[0] and words in lines[0], answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_server_refuses_a_faulty_file_in_one_sentence(run_rouse, tmp_path, fault):
    raw, words = FAULTS[fault]
    path = tmp_path / "model.gguf"
    path.write_bytes(raw)
    answer = run_rouse("serve", "--model", path, "--port", 0, timeout=20)
    expect_one_sentence(answer, path, words)


def test_a_missing_file_a_directory_and_a_fifo(run_rouse, tmp_path):
    missing = tmp_path / "missing.gguf"
    expect_one_sentence(run_rouse("serve", "--model", missing, "--port", 0, timeout=20), missing,
                        "no model file")
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    expect_one_sentence(run_rouse("serve", "--model", folder, "--port", 0, timeout=20), folder,
                        "is a directory")
    fifo = tmp_path / "fifo.gguf"
    os.mkfifo(fifo)
    expect_one_sentence(run_rouse("serve", "--model", fifo, "--port", 0, timeout=20), fifo,
                        "not a regular file")


def test_a_file_that_may_not_be_read(rouse, environment, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    path.chmod(0)
    command = [str(rouse), "serve", "--model", str(path), "--port", "0"]
    if os.geteuid() == 0:
        # Root may read everything; without that capability it may not.
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps",
                   "-dac_override,-dac_read_search", "--", *command]
        if subprocess.run(command[:5] + ["--", "cat", str(path)], capture_output=True,
                          check=False).returncode == 0:
            pytest.skip("setpriv can't take that capability away here")
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=20,
                            check=False)
    assert answer.returncode == 3, answer.stderr
    assert str(path) in answer.stderr and "Permission denied" in answer.stderr


def test_a_real_model_that_was_cut_gives_both_sizes(run_rouse, model, tmp_path):
    path = tmp_path / "model.gguf"
    with open(model, "rb") as source:
        path.write_bytes(source.read(50_000_000))
    answer = run_rouse("serve", "--model", path, "--port", 0, timeout=20)
    expect_one_sentence(answer, path, f"need {model.stat().st_size} bytes, the file has 50000000")


def test_an_unknown_name_exits_2_and_an_absent_known_one_3(run_rouse, tmp_path):
    cache = {"ROUSE_CACHE": str(tmp_path / "cache")}
    typo = run_rouse("serve", "--model", "smolm2-135m", "--port", 0, env=cache, timeout=20)
    assert typo.status == 2
    assert "did you mean smollm2-135m?" in typo.stderr
    absent = run_rouse("serve", "--model", "smollm2-135m", "--port", 0, env=cache, timeout=20)
    assert absent.status == 3
    assert "./dev run" in absent.stderr and str(tmp_path / "cache") in absent.stderr


def test_a_split_model_without_one_of_its_parts_names_it(run_rouse, tmp_path):
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(with_tensor(
        build.tensor("a", [8], 0, 0),
        entries=[build.entry("split.no", 2, b"\0\0"), build.entry("split.count", 2, b"\2\0")]))
    answer = run_rouse("serve", "--model", first, "--port", 0, timeout=20)
    expect_one_sentence(answer, "m-00002-of-00002.gguf", "part 2 of 2")
