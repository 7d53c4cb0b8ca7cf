"""The storage preset, scaled down: the same cold start from a directory on disk and from a RAM
disk."""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import pytest


@pytest.fixture
def ram_folder():
    """A folder of a memory file system; the machine's shared memory is one everywhere."""
    folder = Path("/dev/shm") / f"rouse-storage-{uuid.uuid4().hex}"
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm cannot be written here")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_each_path_is_measured_by_itself_and_then_loaded_from(run_rouse, tmp_path, ram_folder):
    disk = tmp_path / "disk"
    disk.mkdir()
    answer = run_rouse("measure", "--preset", "storage", "--repeat", 1, "--path", f"disk={disk}",
                       "--path", f"ram={ram_folder}", "--json", timeout=150)
    assert answer.status == 0, answer.stderr
    report = answer.json()
    assert [each["name"] for each in report["conditions"]] == [
        "cold where it is", "cold from disk", "cold from ram"]
    tiers = {tier["path"]: tier for tier in report["tiers"]}
    assert set(tiers) == {"disk", "ram"}
    for tier in tiers.values():
        assert set(tier["depths"]) == {"1", "4", "16"}
        assert tier["possible_bytes_per_second"] == max(tier["depths"].values())
    assert "memory" in tiers["ram"]["storage"]
    # Nothing is left: neither the copies of the model nor the files that were measured.
    assert not list(disk.iterdir()) and not list(ram_folder.iterdir())


def simulated_disks(run_rouse, model):
    """What `rouse doctor` says of them, as (permitted, how or why not)."""
    answer = run_rouse("doctor", "--model", model, "--json")
    assert answer.status == 0, answer.stderr
    rows = {row["what"]: row for row in answer.json()["readers"]}
    row = rows["simulated disks (--path)"]
    return row["yes"], row["how"]


@pytest.fixture
def own_model(model, tmp_path):
    """A copy that no other server maps, so that its pages can be dropped."""
    copy = tmp_path / "own.gguf"
    shutil.copyfile(model, copy)
    with open(copy, "rb") as file:
        os.fsync(file.fileno())
    return copy


def groups_of_tiers(pid):
    """Control groups that the process with this number has made."""
    return glob.glob(f"/sys/fs/cgroup/**/rouse-tier-{pid}-*", recursive=True)


@pytest.fixture
def card_folder():
    """A folder in memory whose name tells this test's loop devices from those of others."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="rouse-card-") as name:
        yield Path(name)


def loop_devices(folder):
    """Those over a file of this folder; it has no name there, but its former one is told."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            text = Path(path).read_text()
        except OSError:
            continue  # it has just been let go
        if f"{folder}/" in text:
            found.append(text)
    return found


@pytest.mark.timeout(200)
def test_a_simulated_disk_slows_the_cold_start_to_its_rate(rouse, run_rouse, own_model,
                                                           environment):
    permitted, why = simulated_disks(run_rouse, own_model)
    if not permitted:
        pytest.skip(why)
    rate = own_model.stat().st_size  # bytes a second: so reading alone takes a second
    run = subprocess.Popen([rouse, "measure", "--preset", "storage", "--model", own_model,
                            "--repeat", "1", "--path", f"slow=simulated:{rate}/s",
                            "--path", f"slower=simulated:{rate // 2}/s", "--json"],
                           env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    try:
        out, errors = run.communicate(timeout=170)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, errors
    report = json.loads(out)
    medians = {each["name"]: each["ttft_ns"]["median"] for each in report["conditions"]}
    assert set(medians) == {"cold where it is", "simulated slow", "simulated slower"}
    # The kernel's first step of 0.1 s is free. No upper bound: a busy machine may take longer.
    assert medians["simulated slow"] >= 0.8e9
    assert medians["simulated slower"] >= 1.7e9
    tiers = {tier["path"]: tier for tier in report["tiers"]}
    for name, limit in (("slow", rate), ("slower", rate // 2)):
        tier = tiers[name]
        assert tier["simulated"] is True and tier["limit_bytes_per_second"] == limit
        # What was not used of a step may be used in the next one: a reader that waited for a core
        # gets up to two of them at once. Without a limit it is ten times as much.
        assert max(tier["depths"].values()) <= 3 * limit, tier
        assert tier["achieved_bytes_per_second"] <= 3 * limit, tier
    for attempt in report["attempts"]:
        if attempt["condition"].startswith("simulated"):
            path = attempt["state_after"]["path"]
            assert path["reached"], path
            assert "control group" in path["proof"] and "limited to" in path["detail"]
    assert groups_of_tiers(run.pid) == []


@pytest.mark.timeout(200)
def test_a_simulated_disk_in_memory_is_a_loop_device_that_is_gone_afterwards(
        run_rouse, own_model, card_folder):
    permitted, why = simulated_disks(run_rouse, own_model)
    if not permitted:
        pytest.skip(why)
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        pytest.skip("loop devices need root")
    rate = own_model.stat().st_size
    answer = run_rouse("measure", "--preset", "storage", "--model", own_model, "--repeat", 1,
                       "--path", f"card=simulated:{rate}/s@{card_folder}", "--json", timeout=170)
    assert answer.status == 0, answer.stderr
    report = answer.json()
    assert report["conditions"][1]["name"] == "simulated card"
    assert report["conditions"][1]["ttft_ns"]["median"] >= 0.8e9
    [tier] = report["tiers"]
    assert tier["simulated"] and "loop device" in tier["storage"]
    assert loop_devices(card_folder) == []


def test_a_killed_run_leaves_no_limit_and_no_loop_device(rouse, run_rouse, own_model,
                                                         environment, card_folder):
    permitted, why = simulated_disks(run_rouse, own_model)
    if not permitted:
        pytest.skip(why)
    rate = own_model.stat().st_size // 20
    paths = ["--path", f"slow=simulated:{rate}/s"]
    card = os.geteuid() == 0 and os.path.exists("/dev/loop-control")
    if card:
        paths += ["--path", f"card=simulated:{rate}/s@{card_folder}"]
    run = subprocess.Popen([rouse, "measure", "--preset", "storage", "--model", own_model, *paths],
                           env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not groups_of_tiers(run.pid) or (card and not loop_devices(card_folder)):
            assert run.poll() is None and time.monotonic() < deadline, "no limit was ever made"
            time.sleep(0.01)
    finally:
        run.kill()
        run.wait()
    deadline = time.monotonic() + 60
    while groups_of_tiers(run.pid) or loop_devices(card_folder):
        assert time.monotonic() < deadline, (groups_of_tiers(run.pid), loop_devices(card_folder))
        time.sleep(0.05)


def test_what_is_not_permitted_is_left_out_with_its_reason(run_rouse, own_model, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    answer = run_rouse("measure", "--preset", "storage", "--model", own_model, "--dry-run",
                       "--path", f"disk={disk}", "--path", "no=simulated:90MB/s@/nonexistent")
    assert answer.status == 0, answer.stderr
    assert 'left out condition "simulated no": there is no directory /nonexistent' in answer.stdout
    assert "cold from disk" in answer.stdout


def test_without_a_path_the_tiers_are_made_with_what_is_permitted(run_rouse, own_model):
    answer = run_rouse("measure", "--preset", "storage", "--model", own_model, "--dry-run",
                       "--json")
    assert answer.status == 0, answer.stderr
    schedule = answer.json()
    names = {each["condition"] for each in schedule["attempts"]}
    left_out = {each.get("condition") or each["hypothesis"] for each in schedule["left_out"]}
    assert "cold where it is" in names
    permitted, why = simulated_disks(run_rouse, own_model)
    found = any(name.startswith("simulated ") for name in names)
    assert found == permitted, why
    assert permitted or any(name.startswith("simulated ") for name in left_out)


def test_a_rate_that_is_none_is_refused_with_what_to_type(run_rouse):
    answer = run_rouse("measure", "--preset", "storage", "--path", "slow=simulated:fast")
    assert answer.status == 2
    assert "expected simulated:RATE, such as simulated:200MB/s" in answer.stderr


def test_a_directory_that_is_not_there_is_named(run_rouse, tmp_path):
    answer = run_rouse("measure", "--preset", "storage", "--path", f"gone={tmp_path}/gone")
    assert answer.status == 3
    assert f"{tmp_path}/gone" in answer.stderr
