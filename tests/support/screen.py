"""A small terminal: what a program's bytes look like on a screen. It knows what `rouse` uses (CR,
LF, erase to the end of line or screen, cursor up, colours), breaks long lines, and lays them out
anew when its width changes, as most terminals of today do. Anything else is an error."""
import re

CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Screen:
    def __init__(self, columns: int):
        self.columns = columns
        self.rows = [""]        # everything that was ever printed, the last rows are the screen
        self.broken = [False]   # whether a row goes on in the next one
        self.row = self.column = 0
        self.wraps = 0          # lines that were too long
        self.pending = ""

    def feed(self, text: str) -> None:
        text = self.pending + text
        self.pending = ""
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\x1b":
                match = CONTROL.match(text, at)
                if match is None:
                    self.pending = text[at:]
                    return
                self._control(match[1], match[2])
                at = match.end()
                continue
            if char == "\r":
                self.column = 0
            elif char == "\n":
                self._down()
            else:
                self._put(char)
            at += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
            self.broken.append(False)

    def _put(self, char: str) -> None:
        if self.column == self.columns:
            self.broken[self.row] = True
            self.wraps += 1
            self._down()
            self.column = 0
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[:self.column] + char + row[self.column + 1:]
        self.column += 1

    def _control(self, numbers: str, letter: str) -> None:
        if letter == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif letter in "KJ" and numbers in ("", "0"):
            self.rows[self.row] = self.rows[self.row][:self.column]
            if letter == "J":
                del self.rows[self.row + 1:], self.broken[self.row + 1:]
                self.broken[self.row] = False
        elif letter != "m":
            raise AssertionError(f"a control sequence that is not expected: {numbers}{letter}")

    def resize(self, columns: int) -> None:
        lines, cursor = [""], None
        for index, row in enumerate(self.rows):
            if index == self.row:
                cursor = (len(lines) - 1, len(lines[-1]) + self.column)
            lines[-1] += row
            if not self.broken[index]:
                lines.append("")
        lines.pop()
        self.columns, self.rows, self.broken = columns, [], []
        for number, line in enumerate(lines):
            parts = [line[i:i + columns] for i in range(0, len(line), columns)] or [""]
            if cursor and cursor[0] == number:
                self.row = len(self.rows) + min(cursor[1] // columns, len(parts) - 1)
                self.column = cursor[1] - columns * (self.row - len(self.rows))
            self.rows += parts
            self.broken += [True] * (len(parts) - 1) + [False]

    def text(self) -> str:
        return "\n".join(self.rows)
