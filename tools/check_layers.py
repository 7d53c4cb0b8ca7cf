#!/usr/bin/env python3
"""Holds the source against the architecture: which folder may use which, and the limits on size.

    check_layers.py [ROOT]      prints each violation as FILE:LINE: what; exit status 1 if any

Arrows (docs/architecture.md): an #include of another folder's file, a DEPS list and a link to
rouse_FOLDER must all stay within ALLOWED, and what is included must be in DEPS. A header that
shows a library (Boost, SQLite, llama.cpp, JSON) is its folder's own: no other folder includes it.
Limits: 100 columns, 600 lines a file, 70 lines a function. Style is clang-format's and clang-tidy's
business, not this file's.
"""
import ast
import re
import sys
from pathlib import Path

ALLOWED = {
    "base": "",
    "stats": "base",
    "os": "base",
    "results": "base",
    "wire": "base",
    "http": "base",
    "gguf": "base",
    "models": "base gguf",
    "loader": "base os gguf",
    "engine": "base gguf loader",
    "server": "base os http models loader engine",
    "lab": "base stats os results wire http gguf models loader",
    "explain": "base stats results",
    "report": "base stats results explain",
    "cli": "base stats os results wire http gguf models loader engine server lab explain report",
}
COLUMNS, FILE_LINES, FUNCTION_LINES = 100, 600, 70
LIBRARIES = re.compile(r'^\s*#\s*include\s*[<"](boost/|nlohmann/|sqlite3|llama|ggml|openssl/)')
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z0-9_]+)/([^"]+)"')
# Comments, string and character literals (raw ones first): none of them can open a block.
NOT_CODE = re.compile(
    r'R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.DOTALL)
SCOPE = re.compile(r"(namespace|class|struct|union|enum|extern)\b"
                   r"|.*\b(namespace|class|struct|union|enum)\b[^()]*$", re.DOTALL)


def folder_of(path: Path, root: Path) -> str:
    return path.relative_to(root / "src").parts[0]


def check_includes(root: Path):
    """Arrows drawn by #include and by CMake, for each folder of src/."""
    for path in sorted((root / "src").glob("*/**/*")):
        folder = folder_of(path, root)
        if folder not in ALLOWED:
            yield path, 1, f"src/{folder} is not in the architecture"
        elif path.suffix in (".cc", ".h"):
            allowed = ALLOWED[folder].split() + [folder]
            declared = declared_deps(root, folder)
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match or not (root / "src" / match[1]).is_dir():
                    continue
                if match[1] not in allowed:
                    yield path, number, f"{folder} may not use {match[1]}"
                elif match[1] not in declared:
                    yield path, number, f"{match[1]} is missing in DEPS of src/{folder}"
                elif match[1] != folder and shows_library(root / "src" / match[1] / match[2]):
                    yield path, number, f"{match[1]}/{match[2]} shows a library; it is not public"


def shows_library(header: Path) -> bool:
    return header.is_file() and any(map(LIBRARIES.match, header.read_text().splitlines()))


def cmake_words(root: Path, folder: str) -> list[tuple[int, str]]:
    path = root / "src" / folder / "CMakeLists.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(number, word) for number, line in enumerate(lines, 1)
            for word in re.findall(r"[\w.:/${}-]+|\)", line.split("#")[0])]


def own_deps(root: Path, folder: str):
    """(line, folder) of each entry of the folder's DEPS list."""
    inside = False
    for number, word in cmake_words(root, folder):
        if word.isupper() or word == ")" or "." in word:
            inside = word == "DEPS"
        elif inside:
            yield number, word


def declared_deps(root: Path, folder: str) -> set[str]:
    """What the folder may include: DEPS are linked PUBLIC, so theirs are there too."""
    found, pending = set(), [folder]
    while pending:
        near = pending.pop()
        if near not in found:
            found.add(near)
            pending += [name for _, name in own_deps(root, near)]
    return found


def check_links(root: Path):
    for path in sorted((root / "src").glob("*/CMakeLists.txt")):
        folder = folder_of(path, root)
        allowed = {folder, *ALLOWED.get(folder, "").split()}
        linked = [(number, word[len("rouse_"):]) for number, word in cmake_words(root, folder)
                  if word.startswith("rouse_")]
        for number, name in [*own_deps(root, folder), *linked]:
            if name in ALLOWED and name not in allowed:
                yield path, number, f"{folder} may not link {name}"


def cxx_functions(text: str):
    """(first line, last line) of each function body, found by its outermost braces that are not a
    namespace, class or initializer. Preprocessor lines are no code here."""
    code = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    code = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda match: re.sub(r"[^\n]", " ", match[0]), code)
    stack, head_start = [], 0
    for match in re.finditer(r"[{};]|\b(?:public|protected|private):", code):
        place, head = match.start(), code[head_start:match.start()].strip()
        head_from, head_start = head_start, match.end()
        if match[0] == "{":
            outside = all(kind == "scope" for kind, _ in stack)
            closed = "(" in head and head.count("(") == head.count(")")
            kind = ("other" if not outside or head.endswith("=") else
                    "scope" if SCOPE.match(head) else "function" if closed else "other")
            stack.append((kind, head_from))
        elif match[0] == "}" and stack:
            kind, start = stack.pop()
            if kind == "function" and re.match(r"\s*[,{]", code[place + 1:place + 80]):
                head_start = start  # C() : a_{1}, b_{2} {: an initializer, the body comes later
            elif kind == "function":
                first = start + len(code[start:]) - len(code[start:].lstrip())
                yield code.count("\n", 0, first) + 1, code.count("\n", 0, place) + 1


def python_functions(text: str):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def check_limits(root: Path):
    files = [root / "dev", *(path for folder in ("src", "tests", "bench", "tools", "cmake")
                             for path in sorted((root / folder).rglob("*")))]
    for path in files:
        if not path.is_file() or not (path.suffix in (".cc", ".h", ".py", ".cmake")
                                      or path.name in ("dev", "CMakeLists.txt")):
            continue
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                yield path, number, f"{len(line)} columns, at most {COLUMNS}"
        if len(lines) > FILE_LINES:
            yield path, len(lines), f"{len(lines)} lines, at most {FILE_LINES}"
        functions = (cxx_functions(text) if path.suffix in (".cc", ".h") else
                     python_functions(text) if path.suffix == ".py" else ())
        for first, last in functions:
            if last - first + 1 > FUNCTION_LINES:
                yield path, first, f"function of {last - first + 1} lines, at most {FUNCTION_LINES}"


def main(root: Path) -> int:
    found = [*check_includes(root), *check_links(root), *check_limits(root)]
    for path, number, what in found:
        print(f"{path.relative_to(root)}:{number}: {what}")
    print(f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1
                  else Path(__file__).resolve().parents[1]))
