"""The verify preset: on the real server and model, on servers that fail on purpose, interrupted and
killed in its midst."""
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

# Too few for an interval: the benefit is undecided, whatever else this machine does now.
SHORT = ("measure", "--preset", "verify", "--repeat", 1)
BENEFITS = ["warm before unloaded", "warm before cold"]

SERVER = '''
import http.server, json, os, sys, time
port, model, mode, size = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
sound = os.path.exists(model) and os.path.getsize(model) == size
if mode != "careless" and not sound:
    sys.exit(f"cannot load {model}")
left = False
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        global left
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if mode != "careless" and not isinstance(asked["messages"], list):
            body = b'{"error": {"message": "messages must be a list"}}'
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        if mode == "sticks" and left:
            time.sleep(600)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        def event(text):
            self.wfile.write(("data: " + text + "\\n\\n").encode())
            self.wfile.flush()
        try:
            for i in range(asked.get("max_tokens", 8)):
                event(json.dumps({"choices": [{"index": 0, "delta": {"content": "hi "}}]}))
                time.sleep(0.005)
            event("[DONE]")
        except OSError:
            left = True
        self.close_connection = True
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
'''


@pytest.fixture
def scripted(tmp_path, model):
    """A server that is sound but for what `mode` names."""
    script = tmp_path / "scripted.py"
    script.write_text(SERVER)

    def flags(mode):
        command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
        return ["--target", f"cmd:{command} {{port}} {{model}} {mode} {model.stat().st_size}",
                "--model", model]
    return flags


def cases_of(report):
    return {case["name"]: case for case in report["verification"]["cases"]}


def statuses(cases, status):
    return [name for name, case in cases.items() if case["status"] == status]


def failed_scripted(cases):
    """Without "no memory": how an interpreter ends there is not the script's doing."""
    return [name for name in statuses(cases, "failed") if name != "no memory"]


@pytest.mark.timeout(300)
def test_every_case_of_the_built_in_server_is_run_and_kept(run_rouse, model, tmp_path):
    before = os.stat(model)
    answer = run_rouse(*SHORT, "--json", "--html", tmp_path / "page.html", timeout=270)
    report = answer.json()
    assert report["schema"] == "rouse.report/1"
    assert report["verification"]["verdict"] == "not_shown"
    assert answer.status == 4, answer.stderr
    cases = cases_of(report)
    for name in BENEFITS:
        assert cases.pop(name)["status"] == "undecided"
    assert {name: case["detail"] for name, case in cases.items()
            if case["status"] != "passed"} == {}
    assert len(cases) == 10
    for case in cases.values():
        assert 0 < case["took_ns"] <= case["bound_ns"]
    assert "429" in cases["queue full"]["detail"]
    after = os.stat(model)
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    # It is shown again: as text, as JSON and on the page.
    text = run_rouse("report", report["run"])
    assert text.status == 0
    assert "  killed while answering  passed" in text.stdout
    assert "Verification not shown" in text.stdout
    again = run_rouse("report", report["run"], "--json").json()
    assert again["verification"] == report["verification"]
    assert "killed while answering" in (tmp_path / "page.html").read_text()


@pytest.mark.timeout(300)
def test_the_same_on_llama_server(run_rouse, model, llama_server):
    command = f"cmd:{shlex.quote(str(llama_server))} --port {{port}} -m {{model}} -c 2048"
    answer = run_rouse(*SHORT, "--target", command, "--model", model, "--json", timeout=270)
    cases = cases_of(answer.json())
    assert statuses(cases, "failed") == [], answer.stdout
    assert statuses(cases, "left_out") == ["warm before unloaded", "queue full"]
    assert statuses(cases, "undecided") == ["warm before cold"]
    assert answer.status == 4


def test_a_url_is_judged_as_far_as_it_can_be_and_the_rest_is_named(run_rouse, server):
    answer = run_rouse(*SHORT, "--target", server.url, "--model", "smollm2-135m", "--json",
                       timeout=90)
    assert answer.status == 4, answer.stderr
    cases = cases_of(answer.json())
    assert statuses(cases, "passed") == ["wrong request", "client left"]
    assert len(statuses(cases, "left_out")) == len(cases) - 2
    assert "not ours to start or end" in cases["killed while idle"]["detail"]
    assert "model unloaded" in cases["warm before unloaded"]["detail"]
    assert server.process.poll() is None


def test_a_server_that_takes_what_it_must_refuse_fails(run_rouse, scripted):
    answer = run_rouse(*SHORT, *scripted("careless"), timeout=90)
    assert answer.status == 1, answer.stderr
    assert "Verification failed" in answer.stdout
    cases = cases_of(run_rouse("report", "--json").json())
    assert failed_scripted(cases) == ["missing model", "cut model", "not a model",
                                      "wrong request"]
    for name in failed_scripted(cases):
        assert "as if nothing were wrong" in cases[name]["detail"]
    assert "killed while answering" in statuses(cases, "passed")


def test_a_server_that_loses_the_next_request_fails(run_rouse, scripted, tmp_path):
    plan = tmp_path / "sticks.toml"
    text = run_rouse("measure", "--preset", "verify", *scripted("sticks"), "--print-plan").stdout
    text, changed = re.subn(r'^timeout = .*', 'timeout = "5s"', text, flags=re.MULTILINE)
    assert changed == 1
    plan.write_text(text)
    answer = run_rouse("measure", plan, "--repeat", 1, timeout=90)
    assert answer.status == 1, answer.stderr
    cases = cases_of(run_rouse("report", "--json").json())
    assert failed_scripted(cases) == ["client left"]
    assert "the next request was not served" in cases["client left"]["detail"]


def test_a_server_that_cannot_be_started_is_not_judged(run_rouse):
    answer = run_rouse(*SHORT, "--target", "cmd:/bin/false {port} {model}")
    assert answer.status == 3
    assert "exited with status 1" in answer.stderr


def stored_cases(database):
    with sqlite3.connect(database) as connection:
        return dict(connection.execute("SELECT name, status FROM verification_cases"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_was_found_before_an_interrupt_or_a_kill_is_kept_and_the_rest_follows(
        how, rouse, environment, database, run_rouse, scripted):
    arguments = [str(each) for each in (*SHORT, *scripted("sound"))]
    with subprocess.Popen([rouse, *arguments], env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        for line in process.stderr:
            assert time.monotonic() < deadline
            if line.startswith('case "not a model": passed'):
                break
        process.send_signal(how)
        rest = process.stderr.read()
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL), rest
    if how == signal.SIGINT:
        assert "Go on with: rouse measure" in rest
    kept = stored_cases(database)
    assert kept["missing model"] == kept["not a model"] == "passed"
    assert {kept["client left"], kept["killed while idle"]} <= {"planned", "interrupted"}
    answer = run_rouse("measure", "--resume", timeout=90)
    assert answer.status in (1, 4), answer.stderr
    assert 'case "missing model"' not in answer.stderr
    ended = stored_cases(database)
    del ended["no memory"]  # as in failed_scripted
    assert set(ended.values()) <= {"passed", "left_out", "undecided"}
    assert "  client left             passed" in answer.stdout
    assert run_rouse("measure", "--resume").status == 2


def test_a_dry_run_lists_the_cases_with_their_bounds_and_runs_nothing(run_rouse, database):
    text = run_rouse("measure", "--preset", "verify", "--dry-run")
    assert text.status == 0
    for word in ("killed while loading", "bound 30.0 s", "nothing lost:", "page cache cold"):
        assert word in text.stdout
    assert text.stdout.endswith("Nothing was run.\n")
    planned = json.loads(run_rouse("measure", "--preset", "verify", "--dry-run", "--json").stdout)
    assert planned["schema"] == "rouse.schedule/1"
    cases = cases_of(planned)
    assert {case["status"] for case in cases.values()} == {"planned"}
    assert list(cases)[:2] == BENEFITS
    assert not database.exists()


def test_its_plan_is_printed_to_be_edited_and_verifies_all_the_same(run_rouse, tmp_path):
    plan = tmp_path / "own.toml"
    plan.write_text(run_rouse("measure", "--preset", "verify", "--print-plan").stdout)
    assert "\nverify = true\n" in plan.read_text()
    planned = run_rouse("measure", plan, "--dry-run", "--json").json()
    assert "client left" in cases_of(planned)
