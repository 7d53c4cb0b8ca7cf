"""`rouse ui` as a client meets it: pages and data, events while a run is being measured by another
process, and what it refuses. In a browser: ui_page_test.py."""
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest
from processes import EXIT_TIMEOUT_S, end_process
from ui_server import HOSTILE, Ui, ui_servers

ROOT = Path(__file__).resolve().parents[2]
QUICK = ROOT / "docs" / "examples" / "quick.jsonl"


@pytest.fixture
def start_ui(rouse, environment, tmp_path):
    with ui_servers(rouse, environment, tmp_path) as start:
        yield start


class Events:
    """What /events says, read by a thread; `wait` blocks until a message fits."""

    def __init__(self, ui: Ui, path="/events"):
        self.socket = socket.create_connection((ui.ready["host"], ui.port), timeout=60)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{ui.port}\r\n\r\n".encode())
        self.changed = threading.Condition()
        self.messages, self.ended = [], False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        text = b""
        try:
            while part := self.socket.recv(65536):
                text += part
                lines = text.split(b"\n")
                text = lines.pop()
                for line in lines:
                    if line.startswith(b"event: "):
                        self.name = line[7:].decode()
                    if line.startswith(b"data: "):
                        with self.changed:
                            self.messages.append((self.name, json.loads(line[6:])))
                            self.changed.notify_all()
        except OSError:
            pass
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait(self, fits, timeout=30):
        with self.changed:
            assert self.changed.wait_for(lambda: any(map(fits, self.messages)), timeout), \
                self.messages
            return next(filter(fits, self.messages))

    def close(self):
        self.socket.close()


def test_the_list_page_has_its_policy(start_ui, run_rouse):
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    assert ui.ready["schema"] == "rouse.ready/1"
    answer, body = ui.ask("/")
    assert answer.status == 200 and body
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Access-Control-Allow-Origin"] is None
    if answer.headers["Content-Type"].startswith("text/html"):
        assert "script-src 'sha256-" in policy and "style-src 'sha256-" in policy
        assert "connect-src 'self'" in policy
    else:  # a binary without pages says so, and shows what it can
        assert "-DROUSE_WEB=OFF" in body and "/runs/1" in body


def test_lists_runs_as_json_with_an_etag(start_ui, run_rouse):
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    answer, body = ui.ask("/api/runs")
    assert json.loads(body) == run_rouse("list", "--json").json()
    tag = answer.headers["ETag"]
    again, nothing = ui.ask("/api/runs", headers={"If-None-Match": tag})
    assert again.status == 304 and nothing == ""
    run_rouse("import", QUICK, "--quiet")
    new, body = ui.ask("/api/runs", headers={"If-None-Match": tag})
    assert new.status == 200 and new.headers["ETag"] != tag
    assert len(json.loads(body)["runs"]) == 2


def test_opens_a_run_and_its_data(start_ui, run_rouse):
    run_rouse("import", QUICK, "--quiet", "--name", HOSTILE)
    ui = start_ui()
    answer, page = ui.ask("/runs/1")
    assert answer.status == 200
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    if answer.headers["Content-Type"].startswith("text/html"):
        assert "/api/runs/1" in page and "<script>alert" not in page
    answer, body = ui.ask("/api/runs/1")
    data = json.loads(body)
    assert data["schema"] == "rouse.page/1"
    assert ui.ask("/api/runs/1", headers={"If-None-Match": answer.headers["ETag"]})[0].status == 304
    # A page of another version may read other data.
    version = run_rouse("--version").stdout.split()[1]
    assert re.fullmatch(rf'"{re.escape(version)}-\d+-\d+-\d+-\d+"', answer.headers["ETag"])


@pytest.mark.parametrize("path, status", [
    ("/runs/99", 404), ("/api/runs/99", 404), ("/runs/x", 404), ("/runs/-1", 404),
    ("/nothing", 404),
    ("/runs/1/../../etc/passwd", 404), ("/../../etc/passwd", 404),
    ("/runs/99999999999999999999", 404)])
def test_unknown_paths_are_404(start_ui, run_rouse, path, status):
    run_rouse("import", QUICK, "--quiet")
    assert start_ui().ask(path)[0].status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_allowed(start_ui, run_rouse, database, method):
    run_rouse("import", QUICK, "--quiet")
    before = database.read_bytes()
    answer, _ = start_ui().ask("/api/runs", method=method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"
    assert database.read_bytes() == before


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:1", "",
    "localhost", "[::1]evil:{port}", "10.0.0.1:{port}"])
def test_a_name_that_was_bound_to_loopback_is_refused(start_ui, run_rouse, host):
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    for path in ("/", "/api/runs", "/events"):
        answer, body = ui.ask(path, host=host.format(port=ui.port))
        assert answer.status in (400, 421), (host, answer.status)
        assert "quick" not in body
    for own in (f"127.0.0.1:{ui.port}", f"localhost:{ui.port}", f"LOCALHOST:{ui.port}",
                f"[::1]:{ui.port}"):
        assert ui.ask("/", host=own)[0].status == 200


def test_the_port_of_http_need_not_be_named(start_ui):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 80))
        except OSError as error:
            pytest.skip(f"port 80: {error}")
    ui = start_ui("--port", 80)
    for own in ("127.0.0.1", "localhost", "[::1]", "127.0.0.1:80"):
        assert ui.ask("/", host=own)[0].status == 200, own
    for other in ("evil.example", "evil.example:80", "localhost:8080", ""):
        assert ui.ask("/", host=other)[0].status in (400, 421), other


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.2", "::", "example.com"])
def test_another_address_is_refused_with_what_to_do(run_rouse, address):
    finished = run_rouse("ui", "--host", address, "--port", 0)
    assert finished.status == 2
    assert "loopback only" in finished.stderr and "ssh -L" in finished.stderr


def test_a_taken_port_names_the_flag(start_ui, run_rouse):
    ui = start_ui()
    finished = run_rouse("ui", "--port", ui.port)
    assert finished.status == 3 and "--port" in finished.stderr


def test_starts_before_there_is_a_database_and_sees_it_come(start_ui, run_rouse, database):
    ui = start_ui()
    assert json.loads(ui.ask("/api/runs")[1]) == {"runs": []}
    assert not database.exists()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all" and m[1]["runs"] == [] and not m[1]["exists"])
    run_rouse("import", QUICK, "--quiet", "--name", HOSTILE)
    _, message = events.wait(lambda m: m[0] == "all" and m[1]["exists"])
    assert message["runs"][0]["name"] == HOSTILE and message["problem"] is None
    events.close()


def test_events_follow_a_run_of_another_process(start_ui, run_rouse, rouse, environment, model,
                                                tmp_path):
    """Real measurements: one seen attempt by attempt while it runs and until it is cut, and one
    seen to be complete."""
    ui = start_ui()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all")
    once = ["measure", "--model", str(model), "--only", "warm"]
    with open(tmp_path / "measure.log", "wb") as log:
        measuring = subprocess.Popen([str(rouse), *once, "--repeat", "2000"], stdout=log,
                                     stderr=log, env=environment)
        try:
            def running(message):
                return message[0] == "changed" and message[1]["runs"][0]["status"] == "running"

            events.wait(running, 60)
            _, told = events.wait(lambda m: running(m) and m[1]["runs"][0]["attempts"] > 0, 60)
            seen = told["runs"][0]["attempts"]
            events.wait(lambda m: running(m) and m[1]["runs"][0]["attempts"] > seen, 60)
            _, told = events.wait(lambda m: running(m) and "progress" in m[1]["runs"][0], 60)
            assert told["runs"][0]["progress"]["total"] == 2000
            assert told["runs"][0]["progress"]["alive"] is True
            _, told = events.wait(lambda m: running(m) and any(
                not each["prime"] for each in m[1]["runs"][0]["recent"]), 60)
            last = told["runs"][0]["recent"][-1]
            assert last["condition"] == "warm" and last["outcome"] == "ok" and last["ttft_ns"] > 0
            live, _ = ui.ask("/runs/1")
            assert live.status == 200 and measuring.poll() is None
            measuring.send_signal(signal.SIGINT)
            events.wait(lambda m: m[0] == "changed" and m[1]["runs"][0]["status"] == "interrupted",
                        60)
            assert measuring.wait(60) == 130, (tmp_path / "measure.log").read_text()
        finally:
            end_process(measuring)
    finished = run_rouse(*once, "--repeat", 1)
    assert finished.status == 0, finished.stdout + finished.stderr
    events.wait(lambda m: m[0] == "changed" and (2, "complete", 1) in [
        (run["run"], run["status"], run["attempts"]) for run in m[1]["runs"]])
    events.close()


def test_control_c_ends_it_and_its_streams(start_ui):
    ui = start_ui()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all")
    ui.process.send_signal(signal.SIGINT)
    assert ui.process.wait(EXIT_TIMEOUT_S) == 0
    with events.changed:
        assert events.changed.wait_for(lambda: events.ended, 10)


def run_ids(message) -> list[int]:
    return [run["run"] for run in message[1]["runs"]]


def test_tells_of_a_run_that_was_deleted(start_ui, run_rouse, database):
    for _ in range(2):
        run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all" and run_ids(m) == [1, 2])
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM runs WHERE id = 1")
    events.wait(lambda m: m[0] == "removed" and m[1]["runs"] == [1])
    assert ui.ask("/runs/1")[0].status == 404 and ui.ask("/runs/2")[0].status == 200
    events.close()


def test_a_database_that_is_replaced_or_taken_away_is_seen(start_ui, run_rouse, database, tmp_path):
    other = tmp_path / "other.sqlite"
    for _ in range(3):
        run_rouse("import", QUICK, "--quiet", "--db", other)
    with contextlib.closing(sqlite3.connect(other)) as db, db:
        db.execute("UPDATE attempts SET ttft_ns = 7000000 WHERE run = 1")
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    events = Events(ui)
    events.wait(lambda m: m[0] == "all" and run_ids(m) == [1])
    other.replace(database)
    _, told = events.wait(lambda m: m[0] == "all" and run_ids(m) == [1, 2, 3])
    assert told["runs"][0]["result"]["slowest_ns"] == 7_000_000, "another run of the same number"
    assert ui.ask("/runs/3")[0].status == 200
    database.unlink()
    events.wait(lambda m: m[0] == "all" and run_ids(m) == [] and not m[1]["exists"])
    assert json.loads(ui.ask("/api/runs")[1]) == {"runs": []}
    assert not database.exists(), "looking on creates nothing"
    events.close()


def test_a_locked_database_is_told_and_got_over(start_ui, run_rouse, database):
    run_rouse("import", QUICK, "--quiet")
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as db:
        # A rollback journal instead of the log: its writer shuts readers out.
        db.execute("PRAGMA journal_mode = DELETE")
        ui = start_ui()
        before = Events(ui)
        before.wait(lambda m: m[0] == "all" and run_ids(m) == [1])
        db.execute("BEGIN EXCLUSIVE")
        _, told = before.wait(lambda m: m[0] == "all" and m[1]["problem"])
        assert "locked" in told["problem"] and run_ids(("all", told)) == [1]
        # Who comes now is told as well, instead of being sent away.
        after = Events(ui)
        after.wait(lambda m: m[0] == "all" and "locked" in (m[1]["problem"] or ""))
        db.execute("ROLLBACK")
    for events in (before, after):
        with events.changed:
            assert events.changed.wait_for(
                lambda told=events.messages: told[-1][0] == "all" and run_ids(told[-1]) == [1]
                and told[-1][1]["problem"] is None, 30), events.messages
        events.close()


def test_a_file_that_is_no_database_is_told(start_ui, database):
    database.write_bytes(b"no database " * 1000)
    ui = start_ui()
    events = Events(ui)
    _, told = events.wait(lambda m: m[0] == "all" and m[1]["problem"])
    assert "not an SQLite database" in told["problem"]
    assert ui.ask("/api/runs")[0].status == 500
    events.close()


def test_a_stream_of_one_run_tells_of_no_other(start_ui, run_rouse, database):
    for _ in range(3):
        run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    events = Events(ui, "/events?run=2")
    events.wait(lambda m: m[0] == "all" and run_ids(m) == [2])
    of_all = Events(ui)
    of_all.wait(lambda m: m[0] == "all")
    run_rouse("import", QUICK, "--quiet")
    of_all.wait(lambda m: m[0] == "changed" and run_ids(m) == [4])
    # Whatever the stream of run 2 was told of that comes before its own run's next change.
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE runs SET name = 'changed' WHERE id = 2")
    _, told = events.wait(lambda m: m[0] == "changed")
    assert told["runs"][0]["name"] == "changed"
    assert [run_ids(message) for message in events.messages] == [[2], [2]]
    for each in (events, of_all):
        each.close()


@pytest.mark.parametrize("site, mode, status", [
    ("cross-site", "no-cors", 403), ("same-site", "cors", 403), ("cross-site", "websocket", 403),
    ("cross-site", "navigate", 200), ("same-origin", "cors", 200), ("none", "navigate", 200)])
def test_pages_of_other_sites_get_nothing(start_ui, run_rouse, site, mode, status):
    run_rouse("import", QUICK, "--quiet")
    ui = start_ui()
    for path in ("/", "/api/runs", "/runs/1"):
        answer, body = ui.ask(path, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode,
                                             "Origin": "http://evil.example"})
        assert answer.status == status
        assert answer.headers["Access-Control-Allow-Origin"] is None
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_head_of_the_events_ends(start_ui):
    answer, body = start_ui().ask("/events", method="HEAD")
    assert answer.status == 200 and body == ""


def test_lists_a_thousand_runs(start_ui, run_rouse, database):
    run_rouse("import", QUICK, "--quiet")
    with sqlite3.connect(database) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)") if row[1] != "id"]
        names = ", ".join(columns)
        db.executemany(f"INSERT INTO runs ({names}) SELECT {names} FROM runs WHERE id = 1",
                       [()] * 999)
    ui = start_ui()
    assert len(json.loads(ui.ask("/api/runs")[1])["runs"]) == 1000


def test_a_client_that_goes_does_not_end_it(start_ui):
    ui = start_ui()
    for _ in range(30):
        events = Events(ui)
        events.wait(lambda m: m[0] == "all")
        events.close()
    time.sleep(1)
    assert ui.ask("/")[0].status == 200
    assert os.path.exists(f"/proc/{ui.process.pid}")
