#!/usr/bin/env python3
"""A picture (SVG) of real terminal output: colours kept, text stays text, nothing drawn by hand.

    tools/terminal_svg.py -o docs/images/quick.svg --columns 90 --prompt './dev run' -- ./dev run
    tools/terminal_svg.py -o out.svg --input captured.ansi

A command runs under a pseudo terminal of the given width, so that it writes what a person would
see, progress included; what the screen shows at the end is the picture. Understood are SGR colours,
carriage return, backspace and the cursor and erase sequences that progress lines use; anything else
is dropped. Not a terminal emulator: no scrolling region, no alternate screen.
"""
import argparse
import os
import pty
import re
import struct
import sys
import termios
import unicodedata
from fcntl import ioctl
from pathlib import Path
from xml.sax.saxutils import escape

# One dark palette that reads on GitHub's light and dark pages; contrast with the ground >= 4.5 : 1,
# bright black (dim text) included.
GROUND, TEXT, FRAME = "#0d1117", "#e6edf3", "#30363d"
PALETTE = ["#6e7681", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#d1d7e0",
           "#8b949e", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff"]
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CELL_WIDTH, LINE_HEIGHT, FONT_SIZE, MARGIN, BAR_HEIGHT = 8.4, 19, 14, 16, 34
SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\[\]]")
PLAIN = (None, None, False, False)  # foreground, background, bold, dim


def colour_of(codes: list[int]) -> str | None:
    """The colour after an SGR 38 or 48; takes its own codes off the list."""
    kind = codes.pop(0) if codes else 0
    if kind == 2 and len(codes) >= 3:
        red, green, blue = (codes.pop(0) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    if kind != 5 or not codes:
        return None
    index = codes.pop(0)
    if index < 16:
        return PALETTE[index]
    if index >= 232:
        return "#" + f"{8 + 10 * (index - 232):02x}" * 3
    index -= 16
    levels = (0, 95, 135, 175, 215, 255)
    return "#" + "".join(f"{levels[index // step % 6]:02x}" for step in (36, 6, 1))


def styled(style: tuple, parameters: str) -> tuple:
    foreground, background, bold, dim = style
    codes = [int(code or 0) for code in parameters.split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            foreground, background, bold, dim = PLAIN
        elif code == 1:
            bold = True
        elif code == 2:
            dim = True
        elif code == 7:
            foreground, background = background or GROUND, foreground or TEXT
        elif code == 22:
            bold = dim = False
        elif code in (38, 48):
            colour = colour_of(codes)
            foreground, background = ((colour, background) if code == 38 else
                                      (foreground, colour))
        elif code in (39, 49):
            foreground, background = ((None, background) if code == 39 else (foreground, None))
        elif 30 <= code <= 37 or 90 <= code <= 97:
            foreground = PALETTE[code - 30 if code < 90 else code - 82]
        elif 40 <= code <= 47 or 100 <= code <= 107:
            background = PALETTE[code - 40 if code < 100 else code - 92]
    return foreground, background, bold, dim


class Screen:
    """Lines of cells; a cell is (text, style). Grows downwards without end."""

    def __init__(self, columns: int):
        self.columns = columns
        self.rows: list[dict[int, tuple[str, tuple]]] = [{}]
        self.row = self.column = 0
        self.style = PLAIN

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            match = SEQUENCE.match(text, place)
            if match:
                self.control(match[1] or "", match[2] or "")
                place = match.end()
            else:
                self.put(text[place])
                place += 1

    def put(self, letter: str) -> None:
        if letter == "\n":
            self.move(self.row + 1, self.column)
        elif letter == "\r":
            self.column = 0
        elif letter == "\b":
            self.column = max(0, self.column - 1)
        elif letter == "\t":
            self.column = (self.column // 8 + 1) * 8
        elif unicodedata.combining(letter) and self.column > 0:
            before, style = self.rows[self.row].get(self.column - 1, (" ", self.style))
            self.rows[self.row][self.column - 1] = (before + letter, style)
        elif letter >= " ":
            if self.column >= self.columns:
                self.move(self.row + 1, 0)
            self.rows[self.row][self.column] = (letter, self.style)
            self.column += 2 if unicodedata.east_asian_width(letter) in "WF" else 1

    def move(self, row: int, column: int) -> None:
        self.row, self.column = max(0, row), max(0, column)
        while len(self.rows) <= self.row:
            self.rows.append({})

    def control(self, parameters: str, final: str) -> None:
        if final == "m":
            self.style = styled(self.style, parameters)
            return
        numbers = [int(word) if word.isdigit() else 0 for word in parameters.split(";")]
        count = max(1, numbers[0])
        if final in "ABCD" and final:
            down = {"A": -count, "B": count}.get(final, 0)
            right = {"C": count, "D": -count}.get(final, 0)
            self.move(self.row + down, self.column + right)
        elif final == "G":
            self.column = count - 1
        elif final == "K":
            keep = {0: lambda column: column < self.column, 1: lambda column: column > self.column,
                    2: lambda column: False}[min(numbers[0], 2)]
            line = self.rows[self.row]
            self.rows[self.row] = {column: line[column] for column in line if keep(column)}
        elif final == "J":
            del self.rows[self.row + 1:]
            self.control("0", "K")

    def lines(self) -> list[dict]:
        rows = list(self.rows)
        while rows and not any(text.strip() for text, _ in rows[-1].values()):
            rows.pop()
        return rows


def run_under_pty(command: list[str], columns: int) -> str:
    """What the command writes to its terminal; its exit status must be 0."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), COLORTERM="truecolor")
        os.environ.pop("NO_COLOR", None)
        try:
            ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # EIO: the last one that had the terminal has closed it
            break
        if not part:
            break
        parts.append(part)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        sys.exit(f"terminal_svg: {command[0]} ended with status {status}; no picture of a failure")
    return b"".join(parts).decode("utf-8", "replace")


def runs_of(line: dict) -> list[tuple[int, str, tuple]]:
    """(first column, text, style): neighbours of one style together, blanks at the ends dropped."""
    runs: list[list] = []
    for column in sorted(line):
        text, style = line[column]
        blank = text == " " and style[1] is None
        if runs and runs[-1][2] == style and runs[-1][0] + len(runs[-1][1]) == column:
            runs[-1][1] += text
        elif not blank:
            runs.append([column, text, style])
    return [(column, text.rstrip() if style[1] is None else text, style)
            for column, text, style in runs if text.strip() or style[1] is not None]


def line_svg(line: dict, baseline: float) -> str:
    parts = []
    for column, text, (foreground, background, bold, dim) in runs_of(line):
        x, width = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
        if background:
            parts.append(f'<rect x="{x:.1f}" y="{baseline - 14:.1f}" width="{width:.1f}" '
                         f'height="{LINE_HEIGHT}" fill="{background}"/>')
            if foreground == PALETTE[0]:  # black is made readable on the ground, not on a colour
                foreground = GROUND
        attributes = f'x="{x:.1f}" y="{baseline:.1f}"'
        if foreground or dim:
            attributes += f' fill="{foreground or PALETTE[8]}"'
        if bold:
            attributes += ' font-weight="bold"'
        # textLength keeps the columns straight in whatever monospaced font the reader has.
        parts.append(f'<text {attributes} textLength="{width:.1f}" '
                     f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>')
    return "".join(parts)


def picture(lines: list[dict], columns: int, title: str) -> str:
    width = 2 * MARGIN + columns * CELL_WIDTH
    height = BAR_HEIGHT + len(lines) * LINE_HEIGHT + MARGIN
    words = "\n".join("".join(line[column][0] for column in sorted(line)) for line in lines)
    body = "\n".join(filter(None, (
        line_svg(line, BAR_HEIGHT + 14 + row * LINE_HEIGHT) for row, line in enumerate(lines))))
    dots = "".join(f'<circle cx="{MARGIN + 6 + 18 * n}" cy="17" r="5.5" fill="{colour}"/>'
                   for n, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" \
width="{width:.0f}" height="{height:.0f}" role="img" aria-labelledby="title words">
<title id="title">{escape(title)}</title>
<desc id="words">{escape(words)}</desc>
<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="9" fill="{GROUND}" \
stroke="{FRAME}"/>
{dots}
<style>text{{white-space:pre}}</style>
<g xml:space="preserve" font-family="{FONT}" font-size="{FONT_SIZE}" fill="{TEXT}">
{body}
</g>
</svg>
"""


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--input", type=Path, help="captured output instead of a command")
    parser.add_argument("--prompt", help="a line '$ PROMPT' above the output")
    parser.add_argument("--title", default="", help="for readers who hear the picture")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args(words)
    if (options.input is None) == (not options.command):
        parser.error("give either --input FILE or a command after --")
    text = (options.input.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
            .replace("\n", "\r\n") if options.input else
            run_under_pty(options.command, options.columns))
    screen = Screen(options.columns)
    if options.prompt:
        screen.feed(f"\x1b[1;32m$\x1b[0m \x1b[1m{options.prompt}\x1b[0m\r\n")
    screen.feed(text)
    title = options.title or f"Terminal: {options.prompt or ' '.join(options.command)}"
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(picture(screen.lines(), options.columns, title), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
