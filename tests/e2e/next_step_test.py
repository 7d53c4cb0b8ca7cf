"""The next step of `rouse explain`, run as it is pasted: the whole text of the command, by a shell
that finds `rouse` on its path, a plan behind `<<` included."""
import json
import os
import subprocess

import pytest

SHELL_TIMEOUT_S = 110


@pytest.fixture
def paste(rouse, environment, tmp_path):
    """Runs what was printed, in a shell, as a person would paste it."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "rouse").symlink_to(rouse)
    path = f"{bin_folder}:{os.environ['PATH']}"

    def run(command: str) -> subprocess.CompletedProcess:
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False,
                              timeout=SHELL_TIMEOUT_S, env={**environment, "PATH": path},
                              stdin=subprocess.DEVNULL)

    return run


def printed_command(text: str) -> str:
    """From "rouse measure" to the end of what explain printed."""
    return text[text.rindex("rouse measure"):]


def lines_of_a_lost_connection():
    for attempt_id in range(1, 9):
        lost = attempt_id == 8
        ttft = 180_000_000 if lost else 100_000_000 + attempt_id * 10_000
        yield {"id": attempt_id, "condition": "warm", "outcome": "ok", "block": attempt_id,
               "ttft_ns": ttft, "connection": {"reused": not lost, "family": "ipv4"},
               "marks_ns": {"send_start": 0, "connected": 80_000_000 if lost else 0,
                            "first_token": ttft, "end": ttft + 10**6},
               "stages_ns": {"transport": 80_100_000 if lost else 100_000,
                             "prefill": ttft - (80_100_000 if lost else 100_000)},
               "stage_source": {"transport": "client", "prefill": "server"},
               "state_after": {"connection": {"value": "fresh" if lost else "reused",
                                              "proof": "the request's own socket"}}}


def test_the_plan_of_a_next_step_measures_when_it_is_pasted(run_rouse, paste, tmp_path):
    """A layer that no preset changes: the step is a plan in a here-document."""
    path = tmp_path / "attempts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines_of_a_lost_connection()))
    assert run_rouse("import", path, "--quiet").status == 0
    explained = run_rouse("explain", "1#8")
    command = printed_command(explained.stdout)
    assert "<<'PLAN'" in command and command.rstrip().endswith("\nPLAN"), explained.stdout
    # Ten attempts of each condition are the step's own number; two show that the plan is right.
    finished = paste(command.replace("repeat = 10", "repeat = 2"))
    assert finished.returncode == 0, finished.stderr
    report = run_rouse("report", "2", "--json").json()
    assert {c["name"]: c["outcomes"] for c in report["conditions"]} == {
        "warm": {"ok": 2}, "connection kept": {"ok": 2}}
    assert report["conditions"][1]["changed"] == "connection"


@pytest.mark.parametrize("layer, condition", [("process", "process new")])
def test_the_step_of_a_started_server_can_be_pasted(run_rouse, rouse, paste, model, layer,
                                                    condition):
    """A server that rouse starts by a command: its process is the layer that the run lacks."""
    target = f"cmd:{rouse} serve --port {{port}} --model smollm2-135m"
    measured = run_rouse("measure", "--target", target, "--model", "smollm2-135m", "--model-file",
                         model, "--repeat", "1", "--only", "warm", "--quiet", timeout=100)
    assert measured.status == 0, measured.stderr
    command = printed_command(run_rouse("explain", 1).stdout)
    assert condition in command and "cmd:cmd:" not in command
    dry = paste(command.strip() + " --dry-run")
    assert dry.returncode == 0, dry.stderr
    assert condition in dry.stdout and "warm" in dry.stdout
