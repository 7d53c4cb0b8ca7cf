"""What every command line answers: help, version, and mistakes, each with the contract's exit code
and on the right stream."""
import re

import pytest


def test_help_is_on_stdout_and_names_every_command_and_exit_status(run_rouse):
    answer = run_rouse("--help")
    assert answer.status == 0
    assert answer.stderr == ""
    assert "Usage: rouse COMMAND" in answer.stdout
    for word in ("Exit status:", "130 interrupted", "Example:"):
        assert word in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) <= 100


def test_no_argument_is_help(run_rouse):
    assert run_rouse().stdout == run_rouse("--help").stdout


@pytest.mark.parametrize("flag", ["--help", "-h", "help"])
def test_help_has_three_spellings(run_rouse, flag):
    assert run_rouse(flag).stdout.startswith("rouse ")


def listed_commands(run_rouse) -> list[str]:
    return re.findall(r"^  ([a-z]+) +\S", run_rouse("--help").stdout, re.MULTILINE)


def test_each_listed_command_explains_itself_with_an_example_and_refuses_what_it_does_not_know(
        run_rouse):
    for command in listed_commands(run_rouse):
        help_text = run_rouse(command, "--help")
        assert help_text.status == 0, command
        assert "Example" in help_text.stdout, f"{command} --help shows no worked example"
        assert help_text.stderr == "", command
        mistake = run_rouse(command, "--definitely-not-a-flag")
        assert mistake.status == 2, f"{command}: {mistake.stderr}"
        assert "--definitely-not-a-flag" in mistake.stderr, command
        assert mistake.stdout == "", command


def test_an_unknown_command_exits_2_and_is_named(run_rouse):
    answer = run_rouse("frobnicate")
    assert answer.status == 2
    assert answer.stdout == ""
    assert 'unknown command "frobnicate"' in answer.stderr
    assert "did you mean" not in answer.stderr


@pytest.mark.parametrize(("typed", "meant"), [("mesure", "measure"), ("prob", "probe"),
                                              ("modles", "models")])
def test_a_misspelt_command_is_answered_with_the_nearest_one(run_rouse, typed, meant):
    if meant not in listed_commands(run_rouse):
        pytest.skip(f"there is no {meant} yet")
    answer = run_rouse(typed)
    assert answer.status == 2
    assert f"did you mean {meant}?" in answer.stderr


def test_version_names_rouse_and_the_engine_that_it_was_built_with(run_rouse):
    answer = run_rouse("--version")
    assert answer.status == 0, answer.stderr
    assert re.match(r"rouse \d+\.\d+\.\d+ · llama\.cpp \S+ \(CPU", answer.stdout), answer.stdout
