"""rouse import of other tools' files, found by itself. The files are written here by hand."""
import json

import pytest

VLLM = {"backend": "openai-chat", "model_id": "m", "mean_ttft_ms": 150.0,
        "ttfts": [0.1, 0.2, 0.0], "errors": ["", "", "reset"], "input_lens": [1, 2, 3],
        "output_lens": [1, 1, 0], "itls": [[], [], []]}


@pytest.fixture
def import_text(run_rouse, tmp_path):
    def run(text, *words, stdin=False):
        path = tmp_path / "theirs"
        path.write_text(text)
        if stdin:
            return run_rouse("import", "-", *words, input=text)
        return run_rouse("import", path, *words)
    return run


@pytest.mark.parametrize("stdin", [False, True])
def test_a_vllm_result(import_text, run_rouse, stdin):
    finished = import_text(json.dumps(VLLM, indent=1), "--json", "--condition", "theirs",
                           stdin=stdin)
    assert finished.status == 0, finished.stderr
    assert "read as vllm" in finished.stderr
    run = finished.json()["run"]
    condition = run_rouse("report", run, "--json").json()["conditions"][0]
    assert condition["name"] == "theirs"
    assert condition["outcomes"] == {"ok": 2, "stream_error": 1}
    assert condition["ttft_ns"]["censored"] == 1
    assert condition["ttft_ns"]["median"] == 200_000_000


def test_only_means_are_refused_with_the_reason(import_text):
    finished = import_text(json.dumps({"mean_ttft_ms": 150.0}))
    assert finished.status == 2
    assert "--save-detailed" in finished.stderr
    assert "Nothing was stored" in finished.stderr


def test_llama_bench_gives_prefill_and_no_ttft(import_text, run_rouse):
    tests = [{"model_type": "m", "n_prompt": 64, "n_gen": 0, "avg_ns": 2, "samples_ns": [1, 3]}]
    finished = import_text(json.dumps(tests), "--json")
    assert finished.status == 0, finished.stderr
    assert "sends no request" in finished.stderr
    report = run_rouse("report", finished.json()["run"], "--json", "--attempts").json()
    assert [each["ttft_ns"] for each in report["attempts"]] == [None, None]
    assert report["conditions"][0]["stages_ns"]["prefill"]["median"] == 2


def test_our_own_lines_are_still_ours(import_text):
    line = '{"condition": "a", "outcome": "ok", "ttft_ns": 5}\n'
    for stdin in (False, True):
        assert import_text(line * 2, "--json", stdin=stdin).status == 0
    finished = import_text(line + "{}\n")
    assert finished.status == 2
    assert ":2:" in finished.stderr
