"""docs/verdicts.md: every command of the page prints the verdict that the page shows."""
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "verdicts.md").read_text()
STATUS = {"ADOPT": 0, "REJECT": 1, "UNDECIDED": 4}

# The command, then the indented block that shows what it prints.
EXAMPLES = re.findall(r"^    rouse (compare .+)\n\n((?:    .+\n)+)", PAGE, re.MULTILINE)


def squeezed(text):
    return " ".join(text.split())


def test_the_page_has_one_example_of_each_kind():
    verdicts = [shown.split()[0] for _, shown in EXAMPLES]
    assert verdicts == ["ADOPT", "REJECT", "UNDECIDED", "ADOPT", "REJECT"]
    assert "--expect equal" in EXAMPLES[3][0]
    assert "--guard" in EXAMPLES[4][0]


@pytest.mark.parametrize("command, shown", EXAMPLES, ids=[str(i) for i in range(len(EXAMPLES))])
def test_the_command_prints_what_the_page_shows(run_rouse, command, shown):
    imported = run_rouse("import", ROOT / "docs" / "examples" / "quick.jsonl", "--json")
    assert imported.json() == {"run": 1}
    finished = run_rouse(*shlex.split(command))
    assert finished.status == STATUS[shown.split()[0]], finished.stderr
    printed = squeezed(finished.stdout)
    for line in shown.splitlines():
        assert squeezed(line) in printed, finished.stdout
