"""`rouse models`: what is listed, in which words, and what a name stands for."""
import hashlib
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))
import gguf_seeds  # noqa: E402  (writes little GGUF files)

SEEDS = dict(gguf_seeds.seeds())
DEFAULT_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """An empty cache of its own."""
    (tmp_path / "cache" / "models").mkdir(parents=True)
    return {"ROUSE_CACHE": str(tmp_path / "cache")}


def models_of(run_rouse, *arguments, env=None, status=0) -> dict[str, dict]:
    answer = run_rouse("models", "--json", *arguments, env=env)
    assert answer.status == status, answer.stderr
    return {model["name"]: model for model in answer.json()["models"]}


def test_the_default_model_is_listed_with_its_pinned_digest(run_rouse, model):
    entry = models_of(run_rouse)["smollm2-135m"]
    assert entry["present"] is True
    assert entry["default"] is True
    assert entry["bytes"] == model.stat().st_size == 98362432
    assert entry["sha256"] == DEFAULT_SHA256
    assert Path(entry["path"]).samefile(model)
    assert entry["problem"] is None


def test_verify_reads_the_file_and_finds_a_single_changed_byte(run_rouse, model, cache):
    assert models_of(run_rouse, "--verify")["smollm2-135m"]["verified"] is True
    copy = Path(cache["ROUSE_CACHE"]) / "models" / DEFAULT_FILE
    shutil.copyfile(model, copy)
    with open(copy, "r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)
        file.seek(50_000_000)
        file.write(bytes([byte[0] ^ 1]))
    entry = models_of(run_rouse, "--verify", env=cache, status=3)["smollm2-135m"]
    assert entry["verified"] is False
    assert entry["sha256"] == hashlib.sha256(copy.read_bytes()).hexdigest() != DEFAULT_SHA256
    human = run_rouse("models", "--verify", env=cache)
    assert human.status == 3
    assert "NOT the pinned one" in human.stdout


def test_an_absent_default_model_comes_with_the_way_to_get_it(run_rouse, cache):
    entry = models_of(run_rouse, env=cache)["smollm2-135m"]
    assert entry["present"] is False
    assert entry["bytes"] == 98362432
    assert "./dev run" in entry["how_to_get"]
    human = run_rouse("models", env=cache)
    assert human.status == 0
    assert "not here" in human.stdout and "./dev run" in human.stdout
    assert cache["ROUSE_CACHE"] in human.stdout


def test_every_gguf_file_of_the_folders_is_listed_by_name(run_rouse, cache, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.gguf").write_bytes(SEEDS["model"])
    (other / "notes.txt").write_text("no model")
    (Path(cache["ROUSE_CACHE"]) / "models" / "broken.gguf").write_bytes(SEEDS["html"])
    models = models_of(run_rouse, env={**cache, "ROUSE_MODELS": str(other)})
    assert models["mine"]["path"] == str(other / "mine.gguf")
    assert models["mine"]["bytes"] == len(SEEDS["model"])
    assert models["mine"]["sha256"] is None
    assert "HTML page" in models["broken"]["problem"]
    assert "notes" not in models
    verified = models_of(run_rouse, "--verify", env={**cache, "ROUSE_MODELS": str(other)})
    assert verified["mine"]["sha256"] == hashlib.sha256(SEEDS["model"]).hexdigest()


def test_json_is_alone_on_stdout_and_progress_elsewhere(run_rouse):
    answer = run_rouse("models", "--verify", "--json")
    assert answer.json()["models"]
    assert "verifying" in answer.stderr or answer.stderr == ""
    assert run_rouse("models", "--verify", "--json", "--quiet").stderr == ""


def test_looking_at_models_leaves_a_cold_file_cold(run_rouse, model, cache):
    """--verify reads all of the file, past the page cache."""
    copy = Path(cache["ROUSE_CACHE"]) / "models" / DEFAULT_FILE
    shutil.copyfile(model, copy)
    if run_rouse("evict", copy).status != 0:
        pytest.skip("files can't be evicted here")
    models_of(run_rouse, "--verify", env=cache)
    state = run_rouse("state", copy, "--json").json()
    assert state["resident_ratio"] < 0.1
