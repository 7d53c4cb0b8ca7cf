"""Step "rouse": configures a preset when something about its configuration changed, and builds."""
import json
import re
from pathlib import Path

from devlib import engine, fetch, paths
from devlib.report import run_logged

# Arguments of ./dev that are about the engine that ./dev builds, and not CMake variables of rouse.
ENGINE_FLAGS = "-DROUSE_ENGINE_FLAGS="
ENGINE_EDITS = r"-DROUSE_ENGINE_EDITS(?::\w+)?=(.*)"


class Configuration:
    """A preset and the -D arguments that were last given for it. They are kept beside the build,
    so that `./dev build -DX=Y` and then `./dev run` mean the same; `./dev clean` forgets them."""

    def __init__(self, preset: str, given: list[str]):
        self.preset = preset
        self.directory = paths.BUILD / preset
        self.kept_file = self.directory / ".dev-arguments"
        if given:
            self.arguments = given
            self.directory.mkdir(parents=True, exist_ok=True)
            paths.write_atomically(self.kept_file, json.dumps(given))
        elif self.kept_file.exists():
            self.arguments = json.loads(self.kept_file.read_text())
        else:
            self.arguments = []

    def engine_flags(self) -> list[str]:
        flags = []
        for argument in self.arguments:
            if argument.startswith(ENGINE_FLAGS):
                flags += argument[len(ENGINE_FLAGS):].split()
        return flags

    def engine_edits(self) -> bool:
        """Whether the engine is built with rouse's edits."""
        edited = True
        for argument in self.arguments:
            if match := re.fullmatch(ENGINE_EDITS, argument):
                edited = match.group(1).upper() not in ("OFF", "0", "NO", "FALSE", "")
        return edited

    def cmake_arguments(self) -> list[str]:
        return [argument for argument in self.arguments if not argument.startswith(ENGINE_FLAGS)]

    def own_engine(self) -> str | None:
        """Where the engine comes from when it is not the pinned one, for people to read."""
        for argument in self.cmake_arguments():
            match = re.match(r"-D(ROUSE_LLAMA_SOURCE|llama_DIR|CMAKE_PREFIX_PATH)(?::\w+)?=(.+)",
                             argument)
            if match:
                return match.group(2)
        return engine.installed_package()


def build_env() -> dict:
    return engine.ccache_env(paths.ROOT)


def configure(step, configuration: Configuration, prefix: Path | None) -> None:
    command = ["cmake", "--fresh", "--preset", configuration.preset, *engine.launcher_args(),
               *([f"-DROUSE_ENGINE_PREFIX={prefix}"] if prefix else []),
               *configuration.cmake_arguments()]
    stamp = configuration.directory / ".dev-configured"
    presets = (paths.ROOT / "CMakePresets.json").read_text()
    packages = (paths.ROOT / "tools" / "debian-packages.txt").read_text()
    text = paths.key_of(command, presets, packages, engine.compiler_facts()) + "\n"
    ready = (configuration.directory / "build.ninja").exists()
    if ready and stamp.exists() and stamp.read_text() == text:
        return
    step.begin("configuring")
    stamp.unlink(missing_ok=True)
    run_logged(step, command, f"configure-{configuration.preset}", cwd=paths.ROOT,
               env=build_env(), tail=60, what="rouse could not be configured")
    stamp.write_text(text)


def build(step, configuration: Configuration, prefix: Path | None, targets: list[str]) -> Path:
    """Builds `targets` ("all" for everything); returns the build directory."""
    configure(step, configuration, prefix)
    name = targets[0] if targets == ["rouse"] else "all"
    label = f"{configuration.preset} build"
    if configuration.arguments:
        label += ", " + " ".join(configuration.arguments)
    step.note(label)
    lines = run_logged(
        BeginOnProgress(step, label),
        ["ninja", "-C", configuration.directory, "-j", str(engine.jobs()), *targets],
        f"build-{configuration.preset}-{name}", env=build_env(),
        progress=engine.NINJA_PROGRESS, tail=40, what="rouse did not compile")
    if any("no work to do" in line for line in lines):
        step.note(label)
    return configuration.directory


class BeginOnProgress:
    """Makes a step count as work only when ninja has something to do."""

    def __init__(self, step, text: str):
        self.step = step
        self.text = text

    def progress(self, done: int, total: int) -> None:
        self.step.begin(self.text)
        self.step.progress(done, total)


def set_up_engine(report, configuration: Configuration):
    """Steps "engine source" and "engine build", or the word of the engine that the user brought."""
    own = configuration.own_engine()
    if own:
        report.step("engine source", lambda step: step.note(f"yours, {own}"))
        report.step("engine build", lambda step: step.note("with rouse, or installed"))
        return None
    report.step("engine source", fetch.engine_source)
    return report.step("engine build",
                       lambda step: engine.ensure(step, configuration.engine_flags(),
                                                  configuration.engine_edits()))


def rouse_binary(configuration: Configuration) -> Path:
    return configuration.directory / "rouse"

