"""rouse doctor --target: a kind, a URL, KIND:URL or a command; what is missing comes with the exact
command, and nothing is ever sent to the server."""
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
import tomllib
import types
from pathlib import Path

import pytest

NOBODY = 65534


def rows_of(answer) -> dict:
    assert answer.status == 0, answer.stderr
    return {row["layer"]: row for row in answer.json()["layers"]}


@pytest.fixture
def listener():
    """A server that counts connections and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        seen = types.SimpleNamespace(connections=0,
                                     url=f"http://127.0.0.1:{server.getsockname()[1]}")

        def accept():
            while True:
                try:
                    server.accept()
                except OSError:
                    return
                seen.connections += 1

        threading.Thread(target=accept, daemon=True).start()
        yield seen


def test_a_url_is_looked_at_without_being_touched(run_rouse, listener):
    rows = rows_of(run_rouse("doctor", "--target", listener.url, "--json"))
    assert listener.connections == 0
    assert rows["process"]["observable"]["yes"] is True
    assert f"(pid {os.getpid()})" in rows["process"]["observable"]["how"]
    assert rows["process"]["settable"]["yes"] is False
    assert f"rouse measure --target {listener.url} --model-file FILE" == \
        rows["page_cache"]["provable"]["widen"]
    assert rows["page_cache"]["settable"]["yes"] is False  # which file is not known
    assert listener.url in rows["model"]["settable"]["widen"]
    report = run_rouse("doctor", "--target", listener.url, "--json").json()
    assert report["target"] == listener.url and report["kind"] == "url"
    readers = {row["what"]: row for row in report["readers"]}
    assert f"(pid {os.getpid()})" in readers["bytes read, RSS, faults"]["how"]


def test_a_model_file_widens_what_it_promises(run_rouse, listener, model):
    rows = rows_of(run_rouse("doctor", "--target", listener.url, "--model-file", model, "--json"))
    assert rows["page_cache"]["settable"]["yes"] and rows["page_cache"]["provable"]["yes"]
    assert rows["page_cache"]["provable"]["widen"] is None
    assert rows["background"]["settable"]["but"] is None


def test_the_file_that_a_server_maps_is_named_in_the_command(run_rouse, server, model):
    deadline = time.monotonic() + 60
    while True:
        rows = rows_of(run_rouse("doctor", "--target", server.url, "--json"))
        if "maps" in rows["page_cache"]["provable"]["how"]:
            break
        assert time.monotonic() < deadline, "the model was not loaded in time"
        time.sleep(0.1)
    widen = rows["page_cache"]["provable"]["widen"]
    assert widen.startswith(f"rouse measure --target {server.url} --model-file /")
    file = widen.split()[-1]
    assert os.path.samefile(file, model)
    known = rows_of(run_rouse("doctor", "--target", server.url, "--model-file", file, "--json"))
    assert f"(pid {server.pid}) maps the file now" in known["page_cache"]["settable"]["but"]


def test_nothing_is_there_to_listen(run_rouse, free_port):
    rows = rows_of(run_rouse("doctor", "--target", f"ollama:http://127.0.0.1:{free_port}",
                             "--json"))
    assert rows["process"]["observable"]["yes"] is False
    assert "start the server" in rows["process"]["observable"]["how"]
    assert rows["model"]["settable"]["yes"] is True


def test_a_server_on_another_machine_is_not_promised_this_machines_means(run_rouse):
    rows = rows_of(run_rouse("doctor", "--target", "http://192.0.2.7:8080", "--json"))
    for layer in ("process", "page_cache", "memory_pressure"):
        assert rows[layer]["settable"]["yes"] is False, rows[layer]
        assert rows[layer]["observable"]["yes"] is False, rows[layer]
    assert "requests" in rows["background"]["settable"]["but"]
    assert rows["connection"]["settable"]["yes"] and rows["prefix_cache"]["settable"]["yes"]


def test_a_command_is_looked_for(run_rouse):
    good = rows_of(run_rouse("doctor", "--target", f"cmd:{sys.executable} {{port}}", "--json"))
    assert good["process"]["settable"]["yes"] is True
    bad = rows_of(run_rouse("doctor", "--target", "cmd:no-such-server {port}", "--json"))
    assert bad["process"]["settable"]["yes"] is False
    assert "no-such-server" in bad["process"]["settable"]["how"]
    assert "compile_cache_env" in bad["compile_cache"]["settable"]["widen"]


@pytest.mark.parametrize("target", ["nope", "cmd:", "http://", "olama:http://127.0.0.1:1"])
def test_what_is_no_target_exits_2(run_rouse, target):
    answer = run_rouse("doctor", "--target", target)
    assert answer.status == 2 and answer.stdout == "" and answer.stderr


def test_the_text_begins_with_the_matrix_and_fits_80_columns(run_rouse, listener):
    text = run_rouse("doctor", "--target", listener.url).stdout
    lines = text.splitlines()
    start = lines.index(f"State layers of {listener.url}")
    assert lines[start + 1].split() == ["can", "be", "set", "proved", "observed"]
    assert [line.split()[0] for line in lines[start + 2:start + 10]] == [
        "connection", "prefix_cache", "model", "process", "page_cache", "compile_cache",
        "memory_pressure", "background"]
    assert "    > rouse measure --target 'cmd:COMMAND {port} {model}'" in lines
    assert all(len(line) <= 80 for line in lines if "/" not in line)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_server_comes_with_the_command_that_shows_it(rouse, environment, listener,
                                                                   open_folder):
    copy = open_folder / "rouse"
    copy.write_bytes(Path(rouse).read_bytes())
    copy.chmod(0o755)
    answer = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", str(copy),
         "doctor", "--target", listener.url, "--json"], capture_output=True, text=True,
        env=environment, timeout=60, stdin=subprocess.DEVNULL, check=True)
    report = json.loads(answer.stdout)
    process = {row["layer"]: row for row in report["layers"]}["process"]
    assert process["observable"]["yes"] is False
    assert process["observable"]["widen"] == f"sudo rouse doctor --target {listener.url}"
    reader = {row["what"]: row for row in report["readers"]}["bytes read, RSS, faults"]
    assert reader["yes"] is False
    assert reader["widen"] == f"sudo rouse measure --target {listener.url}"


def test_commands_can_be_pasted_whatever_is_in_the_target(rouse, run_rouse, environment, model,
                                                          tmp_path):
    """As the text shows them, line breaks and all."""
    words = f"{sys.executable} 'my server.py' --port {{port}} " + "--more 'of it' " * 6
    shown = run_rouse("doctor", "--target", f"cmd:{words}")
    assert shown.status == 0, shown.stderr
    command = re.search(r"^    > (rouse measure (?:.*\\\n)*.*)", shown.stdout, re.MULTILINE)[1]
    assert "\n" in command
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rouse").symlink_to(rouse)
    own = tmp_path / "a model.gguf"
    own.symlink_to(model)
    pasted = subprocess.run(
        ["bash", "-c", command.replace("FILE", f"'{own}'") + " --only warm --print-plan"],
        env={**environment, "PATH": f"{folder}:{environment['PATH']}"}, capture_output=True,
        text=True, timeout=60, check=False)
    assert pasted.returncode == 0, pasted.stderr
    plan = tomllib.loads(pasted.stdout)
    assert plan["target"]["command"] == words
    assert plan["target"]["model_file"] == str(own)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_commands_name_a_file_as_one_word(rouse, environment, model, open_folder):
    for source, name in ((Path(rouse), "rouse"), (model, "it's a model.gguf")):
        copy = open_folder / name
        copy.write_bytes(source.read_bytes())
        copy.chmod(0o755)
    answer = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
         open_folder / "rouse", "doctor", "--model-file", copy, "--json"], capture_output=True,
        text=True, env=environment, timeout=60, stdin=subprocess.DEVNULL, check=True)
    row = {row["layer"]: row for row in json.loads(answer.stdout)["layers"]}["page_cache"]
    assert shlex.split(row["provable"]["widen"]) == ["sudo", "chown", "$USER", str(copy)]
    assert shlex.split(row["observable"]["how"]) == ["rouse", "state", str(copy)]
    readers = json.loads(answer.stdout)["readers"]
    for each in readers:  # what stands behind a command is a comment
        command = each["widen"] or ""
        if command.startswith("sudo sysctl"):
            assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0
