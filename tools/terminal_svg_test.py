"""terminal_svg.py shows what a terminal shows."""
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import terminal_svg  # noqa: E402

TOOL = Path(__file__).with_name("terminal_svg.py")


def shown(text: str, columns: int = 40) -> list[str]:
    screen = terminal_svg.Screen(columns)
    screen.feed(text)
    return ["".join(line.get(column, (" ",))[0] for column in range(max(line, default=-1) + 1))
            for line in screen.lines()]


def styles(text: str) -> list[tuple]:
    screen = terminal_svg.Screen(40)
    screen.feed(text)
    return [style for _, style in screen.rows[0].values()]


@pytest.mark.parametrize(("written", "seen"), [
    ("one\r\ntwo\r\n", ["one", "two"]),
    ("12 %\r\x1b[K34 %\r\x1b[Kdone\r\n", ["done"]),
    ("long line\rshort\r\n", ["shortline"]),
    ("abc\b\bX\r\n", ["aXc"]),
    ("a\r\nb\r\n\x1b[2A\x1b[Jc\r\n", ["c"]),
    ("\x1b]0;title\x07x\x1b(By\r\n\r\n\r\n", ["xBy"]),
    ("a\x1b[3Cb\r\n", ["a   b"]),
    ("x" * 42, ["x" * 40, "xx"]),
])
def test_the_last_state_of_the_screen_is_what_counts(written, seen):
    assert shown(written) == seen


@pytest.mark.parametrize(("codes", "style"), [
    ("31", (terminal_svg.PALETTE[1], None, False, False)),
    ("1;92", (terminal_svg.PALETTE[10], None, True, False)),
    ("2", (None, None, False, True)),
    ("38;5;196", ("#ff0000", None, False, False)),
    ("38;5;232", ("#080808", None, False, False)),
    ("48;2;1;2;255", (None, "#0102ff", False, False)),
    ("31;0", terminal_svg.PLAIN),
    ("1;22;31;39", terminal_svg.PLAIN),
    ("", terminal_svg.PLAIN),
])
def test_colours_are_kept(codes, style):
    assert styles(f"\x1b[{codes}mx") == [style]


def test_a_command_runs_on_a_terminal_of_the_asked_width_and_its_text_is_in_the_picture(tmp_path):
    program = ("import os, sys; "
               "print('\\x1b[32m<ok>\\x1b[0m', os.get_terminal_size()[0], sys.stdout.isatty())")
    out = tmp_path / "folder" / "x.svg"
    subprocess.run([sys.executable, TOOL, "-o", out, "--columns", "72", "--",
                    sys.executable, "-c", program], check=True)
    tree = ET.parse(out).getroot()
    texts = [(node.text, node.get("fill")) for node in tree.iter()
             if node.tag.endswith("}text")]
    assert texts == [("<ok>", terminal_svg.PALETTE[2]), ("72 True", None)]
    width = float(re.sub("[^0-9.]", "", tree.get("width")))
    assert width == round(72 * terminal_svg.CELL_WIDTH + 2 * terminal_svg.MARGIN)


def test_a_failed_command_makes_no_picture(tmp_path):
    out = tmp_path / "x.svg"
    answer = subprocess.run([sys.executable, TOOL, "-o", out, "--", "false"], check=False,
                            capture_output=True, text=True)
    assert answer.returncode != 0
    assert "status 1" in answer.stderr
    assert not out.exists()


def test_black_letters_on_a_colour_can_be_read():
    screen = terminal_svg.Screen(10)
    screen.feed("\x1b[30;48;5;36mi\x1b[0m\x1b[30mx")
    drawn = terminal_svg.line_svg(screen.rows[0], 20.0)
    assert (f'fill="{terminal_svg.GROUND}" textLength="8.4" lengthAdjust="spacing'
            'AndGlyphs">i<') in drawn
    assert f'fill="{terminal_svg.PALETTE[0]}" textLength="8.4"' in drawn
