"""Debian's Chromium for tests that act on a page step by step (tests/e2e/page/steer.mjs)."""
import contextlib
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEER = ROOT / "tests" / "e2e" / "page" / "steer.mjs"
MODULES = Path(os.environ.get("ROUSE_NODE_MODULES") or ROOT / "web" / "node_modules")
NODE = os.environ.get("ROUSE_NODE") or shutil.which("node")
CHROMIUM = os.environ.get("ROUSE_CHROMIUM") or shutil.which("chromium")
ANSWER_S = 60

needs_browser = pytest.mark.skipif(
    not (NODE and CHROMIUM and MODULES.is_dir()),
    reason="no Node, Chromium or web/node_modules; ./dev test has them")


class Browser:
    """browser.open(url, width=360); browser.eval("1 + 1"): one method an action of steer.mjs."""

    def __init__(self, folder: Path):
        self.log = open(folder / "steer.log", "wb")
        self.process = subprocess.Popen(
            [NODE, STEER, folder / "browser"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, bufsize=1,
            env={**os.environ, "ROUSE_NODE_MODULES": str(MODULES), "ROUSE_CHROMIUM": CHROMIUM,
                 "HOME": str(folder)})

    def do(self, action: str, **given):
        self.process.stdin.write(json.dumps({"do": action, **given}) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_S)
        assert ready, f"the browser gave no answer to {action} within {ANSWER_S} s"
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, f"{action} {given}: {answer['error']}"
        return answer["ok"]

    def open(self, url, **given):
        return self.do("open", url=url, **given)

    def eval(self, code):
        return self.do("eval", code=code)

    def wait(self, code, timeout=20_000):
        return self.do("wait", code=code, timeout=timeout)

    def press(self, *keys):
        return self.do("press", keys=keys)

    def overflow(self) -> int:
        return self.eval("document.documentElement.scrollWidth"
                         " - document.documentElement.clientWidth")

    def close(self):
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self.process.stdout.close()
        self.log.close()
