"""check_layers.py goes red on each kind of seeded violation, and on nothing else."""
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).with_name("check_layers.py")
CLEAN = {
    "src/base/error.h": "#pragma once\nnamespace rouse {\nstruct Error {};\n}  // rouse\n",
    "src/base/CMakeLists.txt": "rouse_folder(NAME base\n  SOURCES error.cc)\n",
    "src/os/psi.cc": '#include "os/psi.h"\n\n#include "base/error.h"\n',
    "src/os/psi.h": "#pragma once\n",
    "src/os/CMakeLists.txt": "rouse_folder(NAME os\n  SOURCES psi.cc\n  DEPS base)\n",
    "src/gguf/header.h": '#pragma once\n#include "base/error.h"\n',
    "src/gguf/CMakeLists.txt": "rouse_folder(NAME gguf\n  SOURCES header.cc\n  DEPS base)\n",
    "src/loader/plan.cc": '#include "gguf/header.h"\n#include "os/psi.h"\n',
    "src/loader/CMakeLists.txt":
        "rouse_folder(NAME loader\n  SOURCES plan.cc\n  DEPS os gguf\n  EXTERNAL Boost::headers)\n",
    "dev": "#!/usr/bin/env python3\n",
}


def run(root: Path, changes: dict) -> tuple[int, str]:
    for name, text in {**CLEAN, **changes}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    answer = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True,
                            check=False)
    return answer.returncode, answer.stdout


def function_of(lines: int, head: str = "int Long()") -> str:
    return f"{head} {{\n" + "  Call();\n" * (lines - 2) + "}\n"


def test_a_clean_tree_passes(tmp_path):
    assert run(tmp_path, {}) == (0, "0 violations\n")


@pytest.mark.parametrize(("name", "text", "what"), [
    ("src/base/up.cc", '#include "os/psi.h"\n', "src/base/up.cc:1: base may not use os"),
    ("src/os/up.cc", '\n  #  include "gguf/header.h"\n',
     "src/os/up.cc:2: os may not use gguf"),
    ("src/os/CMakeLists.txt", "rouse_folder(NAME os\n  SOURCES psi.cc)\n",
     "src/os/psi.cc:3: base is missing in DEPS of src/os"),
    ("src/os/CMakeLists.txt", "rouse_folder(NAME os\n  SOURCES psi.cc\n  DEPS base\n    loader)\n",
     "src/os/CMakeLists.txt:4: os may not link loader"),
    ("src/os/CMakeLists.txt",
     "rouse_folder(NAME os\n  DEPS base)\ntarget_link_libraries(rouse_os PRIVATE rouse_gguf)\n",
     "src/os/CMakeLists.txt:3: os may not link gguf"),
    ("src/gguf/header.h", "#pragma once\n#include <nlohmann/json.hpp>\n",
     "src/loader/plan.cc:1: gguf/header.h shows a library"),
    ("src/extra/new.cc", "\n", "src/extra is not in the architecture"),
    ("src/base/wide.cc", "// " + "x" * 98 + "\n", "src/base/wide.cc:1: 101 columns"),
    ("src/base/tall.cc", "\n" * 601, "src/base/tall.cc:601: 601 lines"),
    ("src/base/long.cc", "\n" + function_of(71), "src/base/long.cc:2: function of 71 lines"),
    ("src/base/long.cc", "namespace a {\n" + function_of(71, "int C::Do(int x) const") + "}\n",
     "src/base/long.cc:2: function of 71 lines"),
    ("src/base/long_test.cc", function_of(71, "TEST(Psi, IsRead)"), "function of 71 lines"),
    ("src/base/long.h", "class C {\n public:\n" + function_of(71, "  C() : a_{1}") + "};\n",
     "src/base/long.h:3: function of 71 lines"),
    ("tools/long.py", "def f():\n" + "    g()\n" * 70, "tools/long.py:1: function of 71 lines"),
])
def test_a_violation_is_told_with_its_place(tmp_path, name, text, what):
    status, told = run(tmp_path, {name: text})
    assert status == 1
    assert what in told
    assert told.endswith("\n1 violations\n") or told.startswith("1 violations"), told


@pytest.mark.parametrize("text", [
    function_of(70),
    "// " + "x" * 97 + "\n",
    "\n" * 600,
    # Neither a class, nor a table, nor a namespace is a function, however long.
    "class C {\n" + "  int a() const { return 1; }\n" * 80 + "};\n",
    "constexpr Row kRows[] = {\n" + "    {1, Two(), 3},\n" * 80 + "};\n",
    "constexpr auto kRows = std::to_array<Row>({\n" + "    {1, Two(), 3},\n" * 80 + "});\n",
    # Braces in strings, characters, comments and macros open nothing.
    'const char* a = "{";\nchar b = \'{\';  // {\nauto c = R"x({ " {)x";\n/* { */\n' + "\n" * 80
    + function_of(9),
    "#define OPEN \\\n  if (true) {\n" + "\n" * 80 + function_of(9),
    "int a = 1'000;\nchar b = '\\'';\n" + function_of(60),
    # Only our own folders count: a header of the same name elsewhere is not an arrow.
    '#include "sys/psi.h"\n#include <os/psi.h>\n',
])
def test_what_is_allowed_passes(tmp_path, text):
    assert run(tmp_path, {"src/base/fine.cc": text}) == (0, "0 violations\n")


def test_this_checkout_has_an_arrow_for_every_folder_of_the_source():
    root = CHECK.parents[1]
    built = {path.parent.name for path in (root / "src").glob("*/CMakeLists.txt")}
    sys.path.insert(0, str(CHECK.parent))
    import check_layers
    assert built <= set(check_layers.ALLOWED)
