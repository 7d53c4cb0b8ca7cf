"""Step "Debian packages": installs what tools/debian-packages.txt names and dpkg does not have."""
import os
import shlex
import shutil
import subprocess
import sys

from devlib import paths
from devlib.report import StepFailed, run_logged


def wanted(groups) -> list[str]:
    """The packages of the file's [groups]. `cmake unless cmake`: not wanted when that command is
    there already, from wherever."""
    packages, group = [], None
    for line in (paths.ROOT / "tools" / "debian-packages.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0].startswith("["):
            group = words[0].strip("[]")
        elif group in groups and not (len(words) == 3 and shutil.which(words[2])):
            packages.append(words[0])
    return packages


def missing(packages) -> list[str]:
    answer = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package}\n", *packages],
        capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    installed = {line[3:].strip() for line in answer.stdout.splitlines() if line.startswith("ii")}
    return [package for package in packages if package not in installed]


def as_root(argv) -> list[str] | None:
    """The command as root would get it, or None when there is no way to become root."""
    if os.geteuid() == 0:
        return argv
    if not shutil.which("sudo"):
        return None
    # Without a terminal sudo must not wait for a password that nobody can type.
    return ["sudo", *([] if sys.stdin.isatty() else ["-n"]), *argv]


def ensure(step, groups) -> None:
    packages = wanted(groups)
    if not shutil.which("dpkg-query"):
        step.note("no dpkg here; the list is in tools/debian-packages.txt")
        return
    absent = missing(packages)
    if not absent:
        step.note(f"ok ({len(packages)} present)")
        return
    with paths.locked("apt", step):
        absent = missing(packages)
        install = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes",
                   "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *absent]
        update = ["apt-get", "update", "-o", "DPkg::Lock::Timeout=300"]
        rooted = as_root(install)
        if rooted is None:
            raise StepFailed("neither root nor sudo: install these packages, then come back",
                             "apt-get update && apt-get install " + shlex.join(absent))
        step.begin("installing " + " ".join(absent))
        run_logged(step, as_root(update), "debian-packages-update",
                   what="the package lists could not be fetched")
        run_logged(step, rooted, "debian-packages", what="the packages could not be installed")
    still = missing(packages)
    if still:
        raise StepFailed("apt-get was content, but these are still missing: " + " ".join(still))
    step.note(f"ok ({len(absent)} installed)")
