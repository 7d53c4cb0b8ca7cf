"""rouse state, warm, evict, pin and doctor, on real files in the real page cache: the state is
reached and proved, or the command says why not and exits 3."""
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

MIB = 1 << 20
FILE_BYTES = 24 * MIB
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def file(open_folder):
    """24 MiB on disk, resident and clean."""
    path = open_folder / "weights.bin"
    with open(path, "wb") as stream:
        for number in range(FILE_BYTES // MIB):
            stream.write(bytes([number]) * MIB)
        stream.flush()
        os.fsync(stream.fileno())
    return path


def resident_ratio(run_rouse, path) -> float:
    return run_rouse("state", path, "--json").json()["resident_ratio"]


def as_nobody(rouse, *arguments, environment, timeout=60):
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", str(rouse)]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True,
                          env=environment, timeout=timeout, stdin=subprocess.DEVNULL, check=False)


@pytest.fixture
def rouse_for_all(rouse, open_folder):
    """A copy of the binary that every user may execute."""
    copy = open_folder / "rouse"
    copy.write_bytes(rouse.read_bytes())
    copy.chmod(0o755)
    return copy


class Mapper:
    """Another process that has the file mapped and touched."""

    CODE = """
import mmap, sys
with open(sys.argv[1], "rb") as stream:
    mapped = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
total = sum(mapped[::4096])
print("ready", flush=True)
sys.stdin.read()
"""

    def __init__(self, path):
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE, str(path)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self.process

    def __exit__(self, *unused):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


# --- state ---------------------------------------------------------------------------------------


def test_state_has_the_fields_of_the_contract(run_rouse, file):
    state = run_rouse("state", file, "--json")
    assert state.status == 0 and state.stderr == ""
    value = state.json()
    assert value["schema"] == "rouse.state/1"
    assert value["file"] == str(file)
    assert value["bytes"] == FILE_BYTES
    assert value["resident_bytes"] == FILE_BYTES
    assert value["resident_ratio"] == 1.0
    assert value["proof"] in ("cachestat", "mincore")
    assert value["locked_bytes"] == 0
    assert value["groups"] == []  # no GGUF file
    segments = value["segments"]
    assert segments[0]["offset"] == 0
    assert sum(segment["bytes"] for segment in segments) == FILE_BYTES
    assert all(first["offset"] + first["bytes"] == second["offset"]
               for first, second in zip(segments, segments[1:]))
    assert all(segment["resident_ratio"] == 1.0 for segment in segments)


def test_state_of_a_cold_file_leaves_it_cold(run_rouse, file):
    assert run_rouse("evict", file).status == 0
    for _ in range(3):
        assert resident_ratio(run_rouse, file) == 0.0
        assert run_rouse("state", file).status == 0


def test_state_of_a_cold_model_leaves_even_its_header_cold(run_rouse, model, tmp_path):
    copy = tmp_path / "model.gguf"
    copy.write_bytes(model.read_bytes())
    assert run_rouse("evict", copy).status == 0
    for _ in range(2):
        value = run_rouse("state", copy, "--json").json()
        assert value["resident_bytes"] == 0
        assert value["groups"][0]["name"] == "header"
        assert value["groups"][1]["name"] == "embedding"
        assert sum(group["bytes"] for group in value["groups"]) > 0.9 * copy.stat().st_size


def test_state_shows_the_strip_and_the_groups_within_80_columns(run_rouse, model, tmp_path):
    copy = tmp_path / "model.gguf"
    copy.write_bytes(model.read_bytes())
    assert run_rouse("warm", copy, "--fraction", 0.5, "--quiet").status == 0
    text = run_rouse("state", copy).stdout
    strip = re.search(r"^  \|([#+.-]{72})\|$", text, re.MULTILINE)
    assert strip, text
    assert strip[1][:34] == "#" * 34 and strip[1][-34:] == "." * 34
    assert re.search(r"^  embedding .* 100 %$", text, re.MULTILINE), text
    assert re.search(r"^  blk\.\d+ to blk\.29 .* 0 %$", text, re.MULTILINE), text
    lines = text.replace(str(copy), "").splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)


def test_state_counts_dirty_pages(run_rouse, tmp_path):
    path = tmp_path / "dirty.bin"
    path.write_bytes(b"x" * MIB)  # not synced
    value = run_rouse("state", path, "--json").json()
    if value["dirty_bytes"] is None:
        pytest.skip(value["null_reasons"]["dirty_bytes"])
    assert value["dirty_bytes"] + value["writeback_bytes"] <= MIB
    assert value["resident_bytes"] == MIB


def test_state_names_the_process_that_maps_the_file(run_rouse, file):
    with Mapper(file) as process:
        mappers = run_rouse("state", file, "--json").json()["mappers"]
        assert [mapper["pid"] for mapper in mappers] == [process.pid]
        assert mappers[0]["resident_bytes"] == FILE_BYTES
        assert f"(pid {process.pid})" in run_rouse("state", file).stdout


def test_state_of_an_empty_file(run_rouse, tmp_path):
    path = tmp_path / "empty"
    path.touch()
    value = run_rouse("state", path, "--json").json()
    assert value["bytes"] == 0 and value["resident_ratio"] == 1.0 and value["segments"] == []


@pytest.mark.parametrize("command", ["state", "warm", "evict", "pin"])
def test_what_is_no_file_is_named_and_exits_3(run_rouse, tmp_path, command):
    missing = run_rouse(command, tmp_path / "none.bin")
    assert missing.status == 3 and missing.stdout == ""
    assert "none.bin" in missing.stderr
    folder = run_rouse(command, tmp_path)
    assert folder.status == 3
    assert "directory" in folder.stderr
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert run_rouse(command, fifo, timeout=10).status == 3


@pytest.mark.parametrize("command", ["state", "warm", "evict", "pin"])
def test_an_unknown_model_name_exits_2_and_says_how_to_get_one(run_rouse, command):
    answer = run_rouse(command, "no-such-model")
    assert answer.status == 2
    assert "no-such-model" in answer.stderr


def test_a_models_name_stands_for_its_file(run_rouse, model, environment):
    value = run_rouse("state", "smollm2-135m", "--json", env={"ROUSE_MODELS": model.parent}).json()
    assert value["bytes"] == model.stat().st_size


# --- evict ---------------------------------------------------------------------------------------


def test_evict_reaches_cold_and_proves_it(run_rouse, file):
    answer = run_rouse("evict", file, "--json")
    assert answer.status == 0
    value = answer.json()
    assert value["reached"] is True and value["why_not"] is None
    assert value["resident_before_bytes"] == FILE_BYTES
    assert value["resident_bytes"] == 0
    assert resident_ratio(run_rouse, file) == 0.0


def test_evict_writes_dirty_pages_back_first(run_rouse, tmp_path):
    path = tmp_path / "dirty.bin"
    path.write_bytes(b"x" * (4 * MIB))
    assert run_rouse("evict", path).status == 0
    assert path.read_bytes() == b"x" * (4 * MIB)


def test_evict_of_a_mapped_file_names_the_process_and_exits_3(run_rouse, file):
    with Mapper(file) as process:
        answer = run_rouse("evict", file)
        assert answer.status == 3 and answer.stdout == ""
        assert f"(pid {process.pid})" in answer.stderr
        assert "mapped by python" in answer.stderr
        assert "25.2 MB of 25.2 MB stayed" in answer.stderr
        value = run_rouse("evict", file, "--json")
        assert value.status == 3
        assert value.json()["reached"] is False
        assert [mapper["pid"] for mapper in value.json()["mappers"]] == [process.pid]
        assert resident_ratio(run_rouse, file) == 1.0
    assert run_rouse("evict", file).status == 0  # once it has let go


# --- warm ----------------------------------------------------------------------------------------


def test_warm_reads_what_is_missing_and_proves_it(run_rouse, file):
    run_rouse("evict", file)
    answer = run_rouse("warm", file, "--json")
    assert answer.status == 0
    value = answer.json()
    assert value["schema"] == "rouse.warm/1" and value["reached"] is True
    assert value["resident_bytes"] == FILE_BYTES
    assert value["read_bytes"] == FILE_BYTES
    assert value["duration_ns"] > 0
    assert "warming" in answer.stderr  # progress, one plain line a step
    again = run_rouse("warm", file, "--json", "--quiet")
    assert again.json()["read_bytes"] == 0 and again.stderr == ""


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 1.0])
def test_warm_makes_exactly_the_leading_part_resident(run_rouse, model, tmp_path, fraction):
    copy = tmp_path / "model.gguf"
    copy.write_bytes(model.read_bytes())
    for start in ("evict", "warm"):  # from cold and from warm
        assert run_rouse(start, copy).status == 0
        answer = run_rouse("warm", copy, "--fraction", fraction, "--json")
        assert answer.status == 0, answer.stderr
        assert abs(answer.json()["resident_ratio"] - fraction) <= 0.02
        segments = run_rouse("state", copy, "--json").json()["segments"]
        ratios = [segment["resident_ratio"] for segment in segments]
        edge = round(len(ratios) * fraction)
        assert all(ratio == 1.0 for ratio in ratios[:max(0, edge - 2)])
        assert all(ratio == 0.0 for ratio in ratios[edge + 2:])


@pytest.mark.parametrize("fraction", ["-0.1", "1.1", "half"])
def test_warm_refuses_a_fraction_that_is_none(run_rouse, file, fraction):
    answer = run_rouse("warm", file, f"--fraction={fraction}")
    assert answer.status == 2 and "--fraction" in answer.stderr


def test_warm_refuses_what_does_not_fit_into_memory(run_rouse, tmp_path):
    path = tmp_path / "huge.bin"
    with open("/proc/meminfo", encoding="ascii") as stream:
        total_kib = int(stream.readline().split()[1])
    with open(path, "wb") as stream:
        stream.truncate(4 * total_kib * 1024)  # sparse: takes no disk
    answer = run_rouse("warm", path)
    assert answer.status == 3
    assert "memory" in answer.stderr
    assert run_rouse("state", path, "--json").json()["resident_bytes"] == 0


# --- pin -----------------------------------------------------------------------------------------


def start_pin(rouse, environment, path, *arguments):
    process = subprocess.Popen([str(rouse), "pin", str(path), "--json", *arguments],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment)
    line = process.stdout.readline()
    if not line:
        pytest.fail(process.communicate(timeout=20)[1])
    return process, json.loads(line)


def locked_kib_of(pid) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("VmLck:"))


def test_pin_holds_the_file_until_it_is_told_to_stop(run_rouse, rouse, environment, file):
    process, pinned = start_pin(rouse, environment, file)
    try:
        assert pinned["event"] == "pinned"
        assert pinned["locked_bytes"] == FILE_BYTES
        assert pinned["resident_bytes"] == FILE_BYTES
        assert locked_kib_of(process.pid) == FILE_BYTES // 1024
        state = run_rouse("state", file, "--json").json()
        assert state["locked_bytes"] == FILE_BYTES
        evicted = run_rouse("evict", file)
        assert evicted.status == 3
        assert "locked" in evicted.stderr and f"rouse (pid {process.pid})" in evicted.stderr
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["reason"] == "signal"
    assert run_rouse("evict", file).status == 0


def test_pin_lets_go_after_the_time_that_was_asked_for(run_rouse, file):
    answer = run_rouse("pin", file, "--for", "300ms", "--json")
    assert answer.status == 0
    released = json.loads(answer.stdout.splitlines()[1])
    assert released["reason"] == "time" and released["held_ns"] >= 300_000_000
    assert run_rouse("pin", file, "--for", "300").status == 2  # no unit


def test_a_killed_pin_leaves_nothing_behind(run_rouse, rouse, environment, file):
    process, _ = start_pin(rouse, environment, file)
    process.kill()
    process.communicate(timeout=20)
    assert run_rouse("state", file, "--json").json()["locked_bytes"] == 0
    assert run_rouse("evict", file).status == 0


def test_pin_lets_go_under_memory_pressure_and_says_so(run_rouse, rouse, environment, file,
                                                       tmp_path):
    """A pressure file of the test's own stands in for the machine's, by a private mount."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a private mount")
    calm = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
    tense = "some avg10=55.50 avg60=0.00 avg300=0.00 total=9\n"
    pressure = tmp_path / "pressure"
    pressure.write_text(calm, encoding="ascii")
    script = f"mount --bind {pressure} /proc/pressure/memory && exec {rouse} pin {file} --json"
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment)
    line = process.stdout.readline()
    if not line:
        pytest.skip("no private mounts here: " + process.communicate(timeout=20)[1])
    try:
        assert json.loads(line)["watches_pressure"] is True
        time.sleep(1.2)
        assert process.poll() is None, "let go without pressure"
        pressure.write_text(tense, encoding="ascii")
        stdout, stderr = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 3
    assert json.loads(stdout)["reason"] == "pressure"
    assert "waited for memory" in stderr
    assert run_rouse("state", file, "--json").json()["locked_bytes"] == 0


# --- other users ---------------------------------------------------------------------------------


@as_root
def test_an_owner_without_privilege_sets_and_proves(rouse_for_all, environment, file):
    os.chown(file, NOBODY, NOBODY)
    evicted = as_nobody(rouse_for_all, "evict", file, "--json", environment=environment)
    assert evicted.returncode == 0, evicted.stderr
    assert json.loads(evicted.stdout)["proof"] in ("cachestat", "mincore")
    warmed = as_nobody(rouse_for_all, "warm", file, "--json", environment=environment)
    assert warmed.returncode == 0, warmed.stderr
    assert json.loads(warmed.stdout)["resident_bytes"] == FILE_BYTES


@as_root
def test_whoever_is_not_the_owner_gets_null_with_the_reason_and_a_marked_estimate(
        run_rouse, rouse_for_all, environment, file):
    file.chmod(0o644)
    assert run_rouse("evict", file).status == 0
    answer = as_nobody(rouse_for_all, "state", file, "--json", environment=environment)
    assert answer.returncode == 0, answer.stderr
    value = json.loads(answer.stdout)
    assert value["resident_ratio"] is None and value["resident_bytes"] is None
    assert "neither owns the file" in value["null_reasons"]["resident_ratio"]
    assert value["null_reasons"]["resident_bytes"]
    assert value["proof"] == "sampled" and value["sampled_pages"] == 512
    estimate = value["estimate"]
    assert estimate["resident_ratio"] == 0.0 and estimate["low"] == 0.0  # mincore would say 1.0
    assert 0.0 < estimate["high"] <= 0.01
    assert {segment["resident_ratio"] for segment in value["segments"]} == {None}
    assert value["dirty_bytes"] is None and value["null_reasons"]["dirty_bytes"]
    assert resident_ratio(run_rouse, file) == 0.0  # and looking has not warmed it
    text = as_nobody(rouse_for_all, "state", file, environment=environment).stdout
    assert "between 0 % and 0.7 % of 25.2 MB, estimated from 512 pages" in text
    assert run_rouse("warm", file).status == 0
    warm = json.loads(as_nobody(rouse_for_all, "state", file, "--json",
                                environment=environment).stdout)
    assert warm["resident_ratio"] is None
    assert warm["estimate"]["low"] >= 0.99 and warm["estimate"]["high"] == 1.0


@as_root
def test_a_sample_proves_warm_and_cold_but_no_fraction(run_rouse, rouse_for_all, environment, file):
    file.chmod(0o644)
    for command in ("evict", "warm", "evict"):
        answer = as_nobody(rouse_for_all, command, file, "--json", environment=environment)
        assert answer.returncode == 0, answer.stderr
        value = json.loads(answer.stdout)
        assert value["reached"] is True and value["proof"] == "sampled"
        assert value["resident_ratio"] is None and value["estimate"]["confidence"] == 0.95
        assert resident_ratio(run_rouse, file) == (command == "warm")
    half = as_nobody(rouse_for_all, "warm", file, "--fraction", 0.5, environment=environment)
    assert half.returncode == 3
    assert "not proved to be as warm as asked" in half.stderr
    assert abs(resident_ratio(run_rouse, file) - 0.5) <= 0.02  # it is; this user can't know


@as_root
def test_whoever_may_not_read_the_file_is_told_so(rouse_for_all, environment, file):
    file.chmod(0o600)
    answer = as_nobody(rouse_for_all, "state", file, "--json", environment=environment)
    assert answer.returncode == 3
    assert "Permission denied" in answer.stderr


@as_root
def test_pin_beyond_the_limit_names_the_limit_and_the_command(rouse_for_all, environment, file):
    file.chmod(0o644)
    limited = ["prlimit", f"--memlock={MIB}:{MIB}", "setpriv", f"--reuid={NOBODY}",
               f"--regid={NOBODY}", "--clear-groups", str(rouse_for_all), "pin", str(file)]
    answer = subprocess.run(limited, capture_output=True, text=True, env=environment, timeout=60,
                            stdin=subprocess.DEVNULL, check=False)
    assert answer.returncode == 3
    assert "RLIMIT_MEMLOCK" in answer.stderr
    assert "1.05 MB" in answer.stderr and "25.2 MB" in answer.stderr
    assert "prlimit" in answer.stderr


@as_root
def test_evict_of_another_users_mapping_says_that_it_cannot_be_seen(rouse_for_all, environment,
                                                                   file):
    os.chown(file, NOBODY, NOBODY)
    with Mapper(file) as process:  # root's
        answer = as_nobody(rouse_for_all, "evict", file, environment=environment)
        assert answer.returncode == 3
        assert "stayed" in answer.stderr
        assert str(process.pid) not in answer.stderr
        assert "may not read" in answer.stderr


# --- a server's state ----------------------------------------------------------------------------


def test_state_of_a_server_shows_its_process_and_the_model_that_it_maps(run_rouse, server, model):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        value = run_rouse("state", server.url, "--json").json()
        if value["models"]:
            break
        time.sleep(0.1)
    assert value["schema"] == "rouse.url_state/1"
    assert value["pid"] == server.pid
    assert value["server"]["schema"] == "rouse.server_state/1"
    assert value["rss_bytes"] > 0
    assert [os.path.basename(entry["file"]) for entry in value["models"]] == [model.name]
    text = run_rouse("state", server.url)
    assert text.status == 0, text.stderr
    assert f"(pid {server.pid})" in text.stdout and "weights" in text.stdout


def test_state_of_a_server_that_is_not_there_exits_3(run_rouse, free_port):
    answer = run_rouse("state", f"http://127.0.0.1:{free_port}")
    assert answer.status == 3 and str(free_port) in answer.stderr


def test_state_of_another_kind_of_server_tells_what_the_system_knows(run_rouse, free_port,
                                                                     tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "http.server", str(free_port), "--bind",
                                "127.0.0.1"], cwd=tmp_path, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            answer = run_rouse("state", f"http://127.0.0.1:{free_port}", "--json")
            if answer.status == 0:
                break
            time.sleep(0.05)
        value = answer.json()
    finally:
        process.kill()
        process.wait()
    assert value["server"] is None and "no rouse server" in value["null_reasons"]["server"]
    assert value["pid"] == process.pid
    assert value["models"] == []


@pytest.mark.parametrize("url", ["http://", "ftp://127.0.0.1", "http://127.0.0.1:0",
                                 "http://127.0.0.1:99999"])
def test_what_is_no_url_exits_2(run_rouse, url):
    assert run_rouse("state", url).status == 2


# --- doctor --------------------------------------------------------------------------------------


def test_doctor_shows_every_layer_with_reason_and_command(run_rouse):
    answer = run_rouse("doctor", "--json")
    assert answer.status == 0 and answer.stderr == ""
    value = answer.json()
    assert value["schema"] == "rouse.doctor/1"
    assert [row["layer"] for row in value["layers"]] == [
        "connection", "prefix_cache", "model", "process", "page_cache", "compile_cache",
        "memory_pressure", "background"]
    for row in value["layers"]:
        for kind in ("settable", "provable", "observable"):
            assert isinstance(row[kind]["yes"], bool)
            assert row[kind]["how"], row
    assert value["machine"]["kernel"].startswith("Linux")
    assert value["machine"]["cpu"] and value["machine"]["memory"]
    assert {row["what"] for row in value["readers"]} >= {"wait for the disk", "pressure (PSI)"}
    assert value["calibration"] is None


def test_doctor_for_a_url_says_that_its_process_is_not_ours(run_rouse):
    rows = {row["layer"]: row for row in
            run_rouse("doctor", "--target", "url", "--json").json()["layers"]}
    assert rows["process"]["settable"]["yes"] is False
    assert rows["connection"]["settable"]["yes"] is True
    assert "--model-file" in rows["page_cache"]["provable"]["widen"]


def test_doctor_fits_80_columns_and_leaves_no_file_behind(run_rouse, model):
    before = sorted(os.listdir(model.parent))
    text = run_rouse("doctor").stdout
    assert sorted(os.listdir(model.parent)) == before
    long_lines = [line for line in text.splitlines() if len(line) > 80]
    assert all("/" in line and " " not in line.strip() for line in long_lines), long_lines
    assert "page_cache" in text and "can be set" in text


def test_doctor_names_the_command_that_switches_delay_accounting_on(run_rouse):
    rows = {row["what"]: row for row in run_rouse("doctor", "--json").json()["readers"]}
    row = rows["wait for the disk"]
    if row["yes"]:
        pytest.skip("it is on here")
    assert "sysctl kernel.task_delayacct=1" in row["widen"]


def test_doctor_calibrates_the_client_and_does_nothing_else(run_rouse):
    answer = run_rouse("doctor", "--calibrate", "--json", "--model", "/nowhere/at-all.gguf")
    assert answer.status == 0, answer.stderr
    value = answer.json()
    assert sorted(value) == ["calibration", "schema"]
    assert [row["streams"] for row in value["calibration"]] == [1, 64]
    for row in value["calibration"]:
        assert row["samples"] >= 400
        assert 0 < row["median_ns"] <= row["p99_ns"] <= row["max_ns"]
    text = run_rouse("doctor", "--calibrate").stdout
    assert text.startswith("Client overhead ")
    assert "unknown" not in text and "page_cache" not in text
    assert max(map(len, text.splitlines())) <= 88


@as_root
def test_doctor_tells_a_user_without_rights_how_to_widen_them(rouse_for_all, environment, file,
                                                             model, open_folder):
    copy = open_folder / "model.gguf"
    copy.write_bytes(model.read_bytes())
    copy.chmod(0o644)
    answer = as_nobody(rouse_for_all, "doctor", "--model", copy, "--json", environment=environment)
    assert answer.returncode == 0, answer.stderr
    rows = {row["layer"]: row for row in json.loads(answer.stdout)["layers"]}
    assert rows["page_cache"]["settable"]["yes"] is True  # dropping needs no privilege
    assert "no fraction, and no exact number" in rows["page_cache"]["provable"]["but"]
    assert "chown" in rows["page_cache"]["provable"]["widen"]
