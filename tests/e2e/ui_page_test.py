"""`rouse ui` in a browser: the list, and the page of a run that goes on."""
import contextlib
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from browser import Browser, needs_browser
from processes import end_process
from ui_server import HOSTILE, pages_are_there, ui_servers

ROOT = Path(__file__).resolve().parents[2]
QUICK = ROOT / "docs" / "examples" / "quick.jsonl"
WIDTHS = (360, 800, 1600)
ROWS = "[...document.querySelectorAll('.list tbody tr')].map((row) => Number(row.dataset.run))"
FOCUS = "document.activeElement.closest('[data-run]')?.dataset.run ?? document.activeElement.id"


@pytest.fixture
def start_ui(rouse, environment, tmp_path):
    with ui_servers(rouse, environment, tmp_path) as start:
        yield start


@pytest.fixture
def browser(tmp_path):
    opened = Browser(tmp_path)
    yield opened
    opened.close()


def assert_sound_at_all_sizes(browser: Browser) -> None:
    """As it stands: nothing wider than the window, no serious finding of axe, no complaint."""
    for width in WIDTHS:
        browser.do("size", width=width)
        assert browser.overflow() <= 0, f"wider than {width} px"
        for theme in ("light", "dark"):
            browser.do("theme", theme=theme)
            assert browser.do("axe") == [], (width, theme)
    assert browser.do("told") == []


@needs_browser
def test_the_list_is_found_sorted_and_opened_by_keyboard(start_ui, run_rouse, browser, database):
    pages_are_there(run_rouse)
    for name in ("idle ladder", "quick", HOSTILE, "x" * 300):
        run_rouse("import", QUICK, "--quiet", "--name", name)
    browser.open(start_ui().ready["url"])
    browser.wait(f"{ROWS}.length === 4")
    assert browser.eval(ROWS) == [4, 3, 2, 1]
    assert_sound_at_all_sizes(browser)

    assert browser.eval(FOCUS) == "filter", "one can type at once"
    browser.do("type", text="import idle")
    assert browser.eval(ROWS) == [1]
    assert browser.eval("document.querySelector('.count').textContent") == "1 of 4 runs"
    browser.press("Escape")
    assert browser.eval(ROWS) == [4, 3, 2, 1]
    browser.press("ArrowDown", "ArrowDown", "ArrowDown")
    assert browser.eval(FOCUS) == "2"
    browser.press("End")
    assert browser.eval(FOCUS) == "1"
    browser.press("Home", "ArrowUp")
    assert browser.eval(FOCUS) == "filter"

    browser.eval("document.querySelector('th.run .sort').focus()")
    browser.press("Enter")
    assert browser.eval(ROWS) == [1, 2, 3, 4]
    assert browser.eval("document.querySelector('th.run').ariaSort") == "ascending"
    # The way back from a run finds the list as it was.
    browser.eval("document.getElementById('filter').focus()")
    browser.do("type", text="quick")
    browser.press("Enter")
    browser.wait("location.pathname === '/runs/2' && document.querySelector('.bars .row') !== null")
    assert browser.do("told") == []
    # Not within the call: going back ends the page that would answer it.
    browser.eval("void setTimeout(() => history.back())")
    browser.wait("document.querySelector('.list tbody tr') !== null")
    assert browser.eval(ROWS) == [2]
    assert browser.eval("document.getElementById('filter').value") == "quick"


@needs_browser
def test_an_empty_database_says_what_to_do_and_fills_by_itself(start_ui, run_rouse, browser):
    pages_are_there(run_rouse)
    ui = start_ui()
    browser.open(ui.ready["url"])
    browser.wait("document.querySelector('.empty')?.innerText.includes('rouse measure')")
    assert_sound_at_all_sizes(browser)
    run_rouse("import", QUICK, "--quiet", "--name", HOSTILE)
    browser.wait(f"{ROWS}.length === 1")
    assert browser.eval("document.querySelector('td.name').textContent") == \
            HOSTILE.replace("\x1b", "\ufffd")
    assert not browser.eval("document.querySelector('.empty').checkVisibility()")
    # The server ends: what is shown stays, and the page says that it may be old.
    end_process(ui.process)
    browser.wait("document.querySelector('.notice').innerText.startsWith('Not connected')")
    assert browser.eval(ROWS) == [1]


@needs_browser
def test_the_list_goes_on_through_deletion_and_a_lock(start_ui, run_rouse, browser, database):
    pages_are_there(run_rouse)
    for _ in range(3):
        run_rouse("import", QUICK, "--quiet")
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        browser.open(start_ui().ready["url"])
        browser.wait(f"{ROWS}.length === 3")
        browser.press("ArrowDown", "ArrowDown")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM runs WHERE id = 1")
        browser.wait(f"{ROWS}.length === 2")
        assert browser.eval(FOCUS) == "2", "the reader's place in the list"
        db.execute("BEGIN EXCLUSIVE")
        browser.wait("document.querySelector('.notice').innerText.includes('locked')")
        assert browser.eval(ROWS) == [3, 2]
        assert_sound_at_all_sizes(browser)
        db.execute("ROLLBACK")
    browser.wait("document.querySelector('.notice').hidden")


def watch_listeners(browser: Browser) -> None:
    """window.added: what a redraw adds to the window, which would stay for good."""
    browser.eval("""(() => {
        window.added = [];
        const add = window.addEventListener;
        window.addEventListener = function (kind, ...more) {
            window.added.push(kind);
            return add.call(this, kind, ...more);
        }; })()""")


def assert_prints_the_table_that_stands(browser: Browser) -> None:
    rows = "document.querySelectorAll('.attempts tbody tr').length"
    shown = browser.eval(rows)
    browser.eval("document.querySelector('.attempts tbody').replaceChildren()")
    browser.eval("dispatchEvent(new Event('beforeprint')) && true")
    assert browser.eval(rows) == shown
    browser.eval("dispatchEvent(new Event('afterprint')) && true")


@pytest.mark.timeout(300)
@needs_browser
def test_a_running_run_is_seen_to_go_on(start_ui, run_rouse, browser, rouse, environment, model,
                                        tmp_path, database):
    """A real measurement: its card on the list, and its own page, which draws itself anew without
    taking the reader's place, the open attempt or the filter away."""
    pages_are_there(run_rouse)
    url = start_ui().ready["url"]
    browser.open(url)
    own = shutil.copy(model, tmp_path)  # nobody else evicts this one
    with open(tmp_path / "measure.log", "wb") as log:
        measuring = subprocess.Popen(
            [str(rouse), "measure", "--preset", "idle", "--model", own,
             "--idle", "0s,2s,4s", "--repeat", "100", "--yes"],
            stdout=log, stderr=log, env=environment)
        try:
            browser.wait("document.querySelectorAll('.cards .last li').length >= 2", 60_000)
            card = browser.eval("document.querySelector('.cards').innerText")
            assert "of 300 attempts done" in card and "left, until" in card and " ms" in card
            browser.wait("/idle for [24] s, \\d s more/"
                         ".test(document.querySelector('.cards .now').innerText)", 60_000)
            assert_sound_at_all_sizes(browser)

            browser.open(url + "runs/1", width=1280)
            count = "document.querySelector('.count').textContent"
            watch_listeners(browser)
            browser.wait("document.querySelector('.live .bar') !== null")
            # A choice of the reader, then more results: they wait until the reader lets go.
            browser.eval("""(() => {
                const input = document.querySelector('.filters input[type=search]');
                input.value = 'idle'; input.dispatchEvent(new Event('input')); input.focus();
                scrollTo(0, 700); })()""")
            place = "document.getElementById('conditions').getBoundingClientRect().top"
            top = browser.eval(place)
            seen = browser.eval(count)
            browser.wait("!document.querySelector('.show-new').hidden", 60_000)
            assert browser.eval(count) == seen
            browser.eval("document.activeElement.blur()")
            browser.wait(f"{count} !== {seen!r}", 60_000)
            assert browser.eval("document.querySelector('.filters input').value") == "idle"
            assert abs(browser.eval(place) - top) <= 2, "what is read stays where it is"
            assert browser.eval("document.querySelectorAll('main').length") == 1
            assert browser.eval("window.added") == []
            assert_prints_the_table_that_stands(browser)
            assert browser.do("told") == []
            measuring.kill()
            measuring.wait(20)
            browser.wait("document.querySelector('.gone')?.innerText.includes('--resume 1')")
            assert_sound_at_all_sizes(browser)
        finally:
            end_process(measuring)
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM runs WHERE id = 1")
    browser.wait("document.querySelector('.live .notice')"
                 ".innerText.includes('not in the database')")
    assert browser.eval("document.querySelector('h1').innerText").startswith("The first token"), \
        "what was seen stays"
    assert browser.open(url + "runs/1") == 404
    assert "There is no such run" in browser.eval("document.body.innerText")
    browser.press("Tab", "Enter")  # the way back
    browser.wait("document.querySelector('.empty') !== null")
