"""The tool that puts rouse's edits into the engine's source: what it does on a source that is not
the one the edits were written for matters more than what it does on the right one."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from devlib import edits  # noqa: E402
from devlib.report import StepFailed  # noqa: E402

SOURCE = """int first() {
    return 1;
}

int second() {
    return 1;
}
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    (tmp_path / "source" / "src").mkdir(parents=True)
    (tmp_path / "source" / "src" / "a.cpp").write_text(SOURCE)
    (tmp_path / "source" / "untouched.txt").write_text("as it was")
    ours = tmp_path / "ours"
    (ours / "edits").mkdir(parents=True)
    (ours / "added" / "src").mkdir(parents=True)
    (ours / "added" / "src" / "rouse-x.h").write_text("// new\n")
    monkeypatch.setattr(edits, "directory", lambda: ours)

    def make(text):
        (ours / "edits" / "a.toml").write_text(text)
        edits.make_tree(tmp_path / "source", tmp_path / "target")
        return (tmp_path / "target" / "src" / "a.cpp").read_text()

    make.root = tmp_path
    return make


def edit(**fields):
    lines = ["[[edit]]", 'file = "src/a.cpp"', 'why = "a test"']
    return "\n".join(lines + [f"{name} = '''\n{text}\n'''" for name, text in fields.items()]) + "\n"


def test_it_replaces_between_anchors_and_adds_files_and_leaves_the_source_alone(tree):
    made = tree(edit(find="    return 1;", after="int second() {", replace="    return 2;"))
    assert made == SOURCE.replace("second() {\n    return 1;", "second() {\n    return 2;")
    root = tree.root
    assert (root / "target" / "src" / "rouse-x.h").read_text() == "// new\n"
    assert (root / "target" / "untouched.txt").read_text() == "as it was"
    assert (root / "source" / "src" / "a.cpp").read_text() == SOURCE


def test_it_replaces_a_range_without_quoting_its_middle(tree):
    made = tree(edit(**{"from": "int first() {", "to": "}", "replace": "int first();"}))
    assert made.startswith("int first();\n\nint second() {\n    return 1;\n}")


@pytest.mark.parametrize("fields, count", [
    ({"find": "    return 1;"}, 2),
    ({"find": "    return 3;"}, 0),
    ({"find": "    return 1;", "before": "int third() {"}, 0),
    ({"find": "    return 1;", "after": "return"}, 2),
    ({"from": "int first() {", "to": "no such end"}, 0),
])
def test_it_names_file_and_anchor_that_is_not_there_exactly_once(tree, fields, count):
    with pytest.raises(StepFailed) as failure:
        tree(edit(**fields, replace="x"))
    text = str(failure.value)
    assert "a.toml: src/a.cpp" in text and f"{count} times" in text
    assert "ROUSE_ENGINE_EDITS=OFF" in text
    assert not (tree.root / "target").exists(), "nothing half-made is left"


def test_it_refuses_a_source_that_breaks_what_an_edit_relies_on(tree):
    rule = ('[[check]]\nfile = "src/a.cpp"\nwhy = "all return one"\n'
            "every = 'return '\nmatches = 'return {}'\n")
    tree(rule.format("1"))
    with pytest.raises(StepFailed, match="src/a.cpp:2 breaks what an edit relies on: all return"):
        edits.edited(rule_written(tree, rule.format("2")))


def rule_written(tree, text):
    (tree.root / "ours" / "edits" / "a.toml").write_text(text)
    return tree.root / "source"


def test_it_refuses_a_file_that_the_source_has_by_now(tree):
    (tree.root / "source" / "src" / "rouse-x.h").write_text("theirs")
    with pytest.raises(StepFailed, match="rouse-x.h"):
        tree("")


def test_the_digest_follows_what_the_edits_do_and_not_their_comments(tree):
    text = edit(find="int first() {", replace="int first(void) {")
    tree(text)
    before = edits.digest()
    rule_written(tree, "# a comment\n" + text)
    assert edits.digest() == before
    rule_written(tree, text.replace("(void)", "(int)"))
    assert edits.digest() != before
