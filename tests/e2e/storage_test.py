"""The storage preset, scaled down: the same cold start from a directory on disk and from a RAM
disk."""
import os
import shutil
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


def test_storage_without_a_path_is_refused_with_what_to_type(run_rouse):
    answer = run_rouse("measure", "--preset", "storage")
    assert answer.status == 2
    assert "--path NAME=DIR" in answer.stderr


def test_a_directory_that_is_not_there_is_named(run_rouse, tmp_path):
    answer = run_rouse("measure", "--preset", "storage", "--path", f"gone={tmp_path}/gone")
    assert answer.status == 3
    assert f"{tmp_path}/gone" in answer.stderr
