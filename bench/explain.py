"""The 12-cause bench: does `rouse explain` name the fault that was injected?

Twelve faults are injected on a real `rouse serve`, one at a time. For each, six usual attempts and
a faulty one are measured from outside (marks on CLOCK_MONOTONIC, the server's own timeline, /proc)
and imported as a run, and `rouse explain RUN#ATTEMPT --json` is asked what it was. Printed: one
JSON line per fault and a table. A fault that this machine does not allow (no cgroup v1 with memory
or blkio, not root) is reported as "not injected", never as a success.

    ./dev bench explain                  all twelve, about three minutes
    ./dev bench explain --rounds 3       each three times
    ./dev bench explain --only cpu_hog   one of them
"""
import argparse
import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from support import running
from support.bench_models import REAL, ROUSE, scratch
from support.explain_measuring import (STAGES, BufferingProxy, busy_ticks, connect, counters_of,
                                       disk_of, now_ns, own_ticks, read_stream, reading, stages_of)

MODEL = REAL  # a copy of its own, while it measures
READY_S = 60
USUAL = 6
PATIENCE_S = 20  # for other work to end, before each attempt
QUIET = 0.15  # share of the CPUs that other work may have beside an attempt
SHORT = "Reply with one word: what colour is the sky?"
WORDS = "river stone lamp paper cloud garden window bridge copper winter".split()


def run_rouse(*words, check=True):
    answer = running.run([ROUSE, *words])
    if check and answer.returncode != 0:
        raise RuntimeError(f"rouse {' '.join(map(str, words))}: {answer.stderr.strip()}")
    return answer


class NotInjected(Exception):
    """This machine does not allow the fault."""


class Server:
    """A `rouse serve` in control groups of its own where there are any."""

    def __init__(self, groups):
        self.groups = groups
        self.process = None
        self.port = None

    def start(self, port=0, wait=True):
        def enter():
            for group in self.groups:
                Path(group, "cgroup.procs").write_text(str(os.getpid()))
        self.process = running.start(
            [ROUSE, "serve", "--model", MODEL, "--port", str(port), "--context", "2048",
             "--load", "eager" if wait else "lazy"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, before=enter)
        if not wait:
            return
        if not select.select([self.process.stdout], [], [], READY_S)[0]:
            raise RuntimeError(f"{ROUSE} serve does not listen after {READY_S} s")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{ROUSE} serve ended with status {self.process.wait()}")
        self.port = json.loads(line)["port"]
        # The socket listens before the model's file has been looked at.
        running.wait_for(lambda: self.call("GET", "/state").get("models"), "a model in /state")
        self.load()

    def call(self, method, path, body=None):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            text = json.dumps(body) if body is not None else ""
            connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                               f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
            data = b""
            while chunk := connection.recv(65536):
                data += chunk
        return json.loads(data.split(b"\r\n\r\n", 1)[1])

    def model_id(self):
        return self.call("GET", "/state")["models"][0]["id"]

    def loaded(self):
        return self.call("GET", "/state")["models"][0]["layers"]["weights"] == "ready"

    def load(self):
        self.call("POST", "/models/load", {"model": self.model_id(), "wait": True})

    def unload(self):
        self.call("POST", "/models/unload", {"model": self.model_id()})

    def stop(self):
        if self.process:
            running.end(self.process, signal.SIGKILL)
            self.process.stdout.close()
        self.process = None


def wait_for_quiet():
    """Other work on this machine would be a second fault, and a real one."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        busy, total = busy_ticks()
        time.sleep(0.2)
        busy_then, total_then = busy_ticks()
        if busy_then - busy <= QUIET * (total_then - total):
            return


def resident_share():
    return json.loads(run_rouse("state", MODEL, "--json").stdout)["resident_ratio"]


def send(server, prompt, cache=False, port=None, start_process=None, max_tokens=12,
         quiet=True):
    """One attempt; `start_process` starts the server at the intended send time."""
    before_state = {"model": reading("loaded" if server.process and server.loaded() else "unloaded",
                                     "the server's state")}
    at_send = {"page_cache": reading(resident_share(), "cachestat"),
               "process": reading("running" if server.process else "none", "pid and start time")}
    if quiet:
        wait_for_quiet()
    pid_before = server.process.pid if server.process else None
    busy, total, own = *busy_ticks(), own_ticks(pid_before)
    before = counters_of(pid_before, MODEL)
    marks = {"send_start": 0}
    start = now_ns()
    if start_process:
        start_process()
    connection = connect(port or server.port, start + 60 * 10**9)
    marks["connected"] = now_ns() - start
    body = json.dumps({"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
                       "stream": True, "stream_options": {"include_usage": True}, "temperature": 0,
                       "ignore_eos": True, "cache_prompt": cache, "rouse_timeline": True})
    with connection:
        connection.sendall(("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                            f"Content-Type: application/json\r\nContent-Length: {len(body)}"
                            f"\r\n\r\n{body}").encode())
        marks["request_sent"] = now_ns() - start
        objects = read_stream(connection, marks, start)
    after = counters_of(server.process.pid, MODEL)
    busy_then, total_then = busy_ticks()
    own_then = own_ticks(server.process.pid)
    others = (busy_then - busy - (own_then - own)) / max(1, total_then - total)
    timeline = next(item["rouse"] for item in objects if "rouse" in item)
    usage = next((item["usage"] for item in reversed(objects) if item.get("usage")), {})
    lanes = [{**lane, "start_ns": lane["start_ns"] - start, "end_ns": lane["end_ns"] - start}
             for lane in timeline["lanes"] if lane["end_ns"] > start]
    for lane in lanes:
        lane["start_ns"] = max(0, lane["start_ns"])
    token_events = marks.pop("token_events", 0)
    return {
        "others": others, "schema": "rouse.attempt/1", "outcome": "ok",
        "ttft_ns": marks["first_token"],
        "marks_ns": marks,
        "stages_ns": stages_of(start, timeline, marks, marks["connected"] if start_process else 0),
        "stage_source": {stage: "server" for stage in STAGES},
        "lanes": [{key: lane.get(key) for key in ("name", "start_ns", "end_ns", "bytes")}
                  for lane in lanes],
        "tokens": {"prompt": usage.get("prompt_tokens"),
                   "cached": usage.get("prompt_tokens_details", {}).get("cached_tokens")},
        "stream": {"token_events": token_events},
        "connection": {"reused": False, "family": "ipv4", "remote": ""},
        "counters": {name: total - before.get(name, 0) for name, total in after.items()},
        "state_before": before_state, "state_at_send": at_send}


# ---- the states and the faults ----

def salted(length=0):
    salt = " ".join(random.choices(WORDS, k=3))
    return f"{salt}. {SHORT} " + " ".join(random.choices(WORDS, k=length))


def warm_up(server):
    run_rouse("warm", MODEL)
    if not server.loaded():
        server.load()
    send(server, salted(), max_tokens=2, quiet=False)


def unload(server):
    server.unload()
    run_rouse("warm", MODEL)


def go_cold(server):
    server.unload()
    evict()


def evict():
    # Pages of a mapping that has just gone may be in use for a moment yet.
    for _ in range(40):
        run_rouse("evict", MODEL, check=False)
        if resident_share() <= 0.01:
            return
        time.sleep(0.05)
    raise NotInjected("the file does not leave the page cache: another process maps it")


@contextlib.contextmanager
def hogs(count, *command):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            hog = running.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(running.end, hog, signal.SIGKILL)
        time.sleep(0.3)
        yield


def evicted_file(bench):
    yield from (bench.measure(unload) for _ in range(USUAL))
    yield bench.measure(go_cold)


def half_evicted_file(bench):
    def half(server):
        go_cold(server)
        run_rouse("warm", "--fraction", "0.5", MODEL)
    yield from (bench.measure(unload) for _ in range(USUAL))
    yield bench.measure(half)


def killed_process(bench):
    yield from (bench.measure(warm_up) for _ in range(USUAL))
    port = bench.server.port
    bench.server.stop()
    run_rouse("warm", MODEL)
    yield send(bench.server, salted(),
               start_process=lambda: bench.server.start(port, wait=False), port=port)


def unloaded_model(bench):
    yield from (bench.measure(warm_up) for _ in range(USUAL))
    yield bench.measure(unload)


def emptied_prefix(bench):
    prompt = salted(120)

    def prime(server):
        warm_up(server)
        send(server, prompt, cache=True, max_tokens=2)
    yield from (bench.measure(prime, prompt=prompt, cache=True) for _ in range(USUAL))
    yield bench.measure(warm_up, prompt=prompt, cache=True)


def long_prompt(bench):
    yield from (bench.measure(warm_up) for _ in range(USUAL))
    yield bench.measure(warm_up, prompt=salted(400))


def memory_limit(bench):
    group = bench.group("memory")
    # The file's pages are charged to whoever touches them first: that must be the server.
    bench.server.unload()
    evict()
    bench.server.load()
    yield from (bench.measure(lambda server: send(server, salted(), max_tokens=2))
                for _ in range(USUAL))
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    limit = int(stat["rss"]) + 40 * 2**20
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield send(bench.server, salted(), quiet=False)
    finally:
        (group / "memory.limit_in_bytes").write_text("-1")


def cpu_hog(bench):
    yield from (bench.measure(warm_up) for _ in range(USUAL))
    warm_up(bench.server)
    wait_for_quiet()
    with hogs(4, "sh", "-c", "while :; do :; done"):
        yield send(bench.server, salted(), quiet=False) | {"others": 0}


def disk_reader(bench):
    big = bench.scratch_file()
    yield from (bench.measure(go_cold) for _ in range(USUAL))
    go_cold(bench.server)
    # Four readers leave a fast disk idle enough that the server's own read is no slower.
    dd = f"setpriv --pdeathsig KILL dd if={big} of=/dev/null bs=1M iflag=direct"
    with hogs(16, "sh", "-c", f"while {dd}; do :; done"):
        yield send(bench.server, salted(), quiet=False) | {"others": 0}


def slow_disk(bench):
    limit = bench.group("blkio") / "blkio.throttle.read_bps_device"
    device = ":".join(map(str, disk_of(MODEL)))
    yield from (bench.measure(go_cold) for _ in range(USUAL))
    go_cold(bench.server)
    try:
        limit.write_text(f"{device} {60_000_000}")
        yield send(bench.server, salted())
    finally:
        limit.write_text(f"{device} 0")


def busy_queue(bench):
    yield from (bench.measure(warm_up) for _ in range(USUAL))
    warm_up(bench.server)
    other = threading.Thread(target=send, args=(bench.server, salted()),
                             kwargs={"max_tokens": 120, "quiet": False})
    other.start()
    time.sleep(0.5)
    try:
        yield send(bench.server, salted(), quiet=False)
    finally:
        other.join()


def buffering_proxy(bench):
    proxy = BufferingProxy(bench.server.port)
    yield from (bench.measure(warm_up) for _ in range(USUAL))
    warm_up(bench.server)
    yield send(bench.server, salted(), port=proxy.port)
    proxy.socket.close()


# The fault, what explain has to name first.
FAULTS = {
    evicted_file: "page_cache_cold", half_evicted_file: "page_cache_cold",
    killed_process: "process_new", unloaded_model: "model_unloaded",
    emptied_prefix: "prefix_lost", long_prompt: "prompt_longer",
    memory_limit: "memory_reclaim", cpu_hog: "cpu_busy", disk_reader: "disk_busy",
    slow_disk: "disk_slow", busy_queue: "busy_queue", buffering_proxy: "stream_buffered"}


def drop_groups_of_killed(parent):
    for path in parent.glob("rouse-bench-*"):
        if not Path("/proc", path.name.rpartition("-")[2]).exists():
            with contextlib.suppress(OSError):
                path.rmdir()


class Bench:
    """A fresh server for each fault, and what the faults need."""

    def __init__(self, scratch, database):
        self.scratch = scratch
        self.database = database
        self.server = None
        self.groups = {}

    def group(self, controller):
        if controller not in self.groups:
            raise NotInjected(f"no cgroup v1 controller {controller} that this user may write")
        return self.groups[controller]

    def scratch_file(self):
        """512 MB on the model's disk, filled, so that reading it reads the disk."""
        path = Path(MODEL).parent / "filled"
        if not path.exists():
            block = os.urandom(1 << 20)
            with open(path, "wb") as file:
                for _ in range(512):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
        return path

    def measure(self, prepare, prompt=None, cache=False):
        prepare(self.server)
        time.sleep(0.1)
        return send(self.server, prompt or salted(), cache=cache)

    def __enter__(self):
        for controller in ("memory", "blkio"):
            path = Path("/sys/fs/cgroup", controller)
            if not (path / "cgroup.procs").exists() or not os.access(path, os.W_OK):
                continue
            drop_groups_of_killed(path)
            path /= f"rouse-bench-{os.getpid()}"
            with contextlib.suppress(OSError):
                path.mkdir(exist_ok=True)
                self.groups[controller] = path
        return self

    def __exit__(self, *_):
        if self.server:
            self.server.stop()
        for path in self.groups.values():
            for _ in range(50):
                with contextlib.suppress(OSError):
                    path.rmdir()
                    break
                time.sleep(0.1)

    def attempts_of(self, fault, tries):
        """The attempts of one fault, taken anew while other work disturbed them: decided by the
        CPU time that others had, never by what explain would say."""
        tried = 0
        while tried < max(1, tries):
            tried += 1
            attempts = self.take(fault)
            others = sorted(attempt.pop("others") for attempt in attempts[:-1])
            worst = max(others[len(others) // 2], attempts[-1].pop("others"))
            if worst <= QUIET:
                break
        return attempts, tried, worst

    def take(self, fault):
        self.server = Server(self.groups.values())
        self.server.start()
        try:
            attempts = list(fault(self))
        finally:
            self.server.stop()
            self.server = None
        return attempts

    def one(self, fault, tries):
        """Injects the fault; returns what explain said."""
        attempts, tried, others = self.attempts_of(fault, tries)
        path = self.scratch / f"{fault.__name__}.jsonl"
        lines = []
        for number, attempt in enumerate(attempts, 1):
            attempt |= {"condition": "usual", "id": number}
            lines.append(json.dumps(attempt))
        path.write_text("\n".join(lines) + "\n")
        run = json.loads(run_rouse("import", path, "--db", self.database, "--name",
                                   fault.__name__, "--json").stdout)["run"]
        found = run_rouse("explain", f"{run}#{len(attempts)}", "--db", self.database, "--json")
        return json.loads(found.stdout) | {"tries": tried, "others": round(others, 2)}


def result_of(bench, fault, tries):
    wanted = FAULTS[fault]
    result = {"fault": fault.__name__, "wanted": wanted, "named": None, "proved": False}
    try:
        explanation = bench.one(fault, tries)
    except NotInjected as reason:
        return {**result, "outcome": "not injected", "reason": str(reason)}
    causes = explanation["causes"]
    result["usual_ms"] = round((explanation["reference"]["ttft_ns"] or 0) / 1e6, 1)
    result["excess_ms"] = round((explanation["excess_ns"] or 0) / 1e6, 1)
    result["named"] = causes[0]["cause"] if causes else None
    result["claimed_ms"] = round(causes[0]["claimed_ns"] / 1e6, 1) if causes else 0
    result["others"] = [cause["cause"] for cause in causes[1:]]
    result["unattributed_ms"] = round((explanation.get("unattributed_ns") or 0) / 1e6, 1)
    result["proved"] = bool(explanation["proved_by"])
    result["tries"], result["others_cpu_ratio"] = explanation["tries"], explanation["others"]
    result["evidence"] = causes[0]["evidence"] if causes else ""
    result["outcome"] = "named first" if result["named"] == wanted else "missed"
    return result


def print_table(results):
    print("\n| fault | usual | excess | named first | its share | unattributed | |")
    print("|---|---|---|---|---|---|---|")
    for each in results:
        if each["outcome"] == "not injected":
            print(f"| {each['fault']} | | | | | | not injected: {each['reason']} |")
            continue
        print(f"| {each['fault']} | {each['usual_ms']} ms | +{each['excess_ms']} ms | "
              f"{each['named']} | {each['claimed_ms']} ms | {each['unattributed_ms']} ms | "
              f"{'yes' if each['outcome'] == 'named first' else '**no**'} |")
    injected = [each for each in results if each["outcome"] != "not injected"]
    right = sum(each["outcome"] == "named first" for each in injected)
    wrong = sum(each["proved"] and each["named"] != each["wanted"] for each in injected)
    print(f"\n{right} of {len(injected)} injected faults named first, {wrong} wrong ones called "
          f"proved, {len(results) - len(injected)} not injected")


def main():
    global MODEL, USUAL, QUIET, PATIENCE_S
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="a fault by its name; may be repeated")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tries", type=int, default=6,
                        help="at most, while other work disturbs a fault's attempts (default 6)")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="SECONDS",
                        help="how long an attempt waits for other work to end (default 20)")
    parser.add_argument("--keep", help="a folder for the attempts (JSONL) and the database")
    parser.add_argument("--smoke", action="store_true", help="one cheap fault, two usual attempts")
    options = parser.parse_args()
    names = {fault.__name__: fault for fault in FAULTS}
    wanted = options.only or list(names)
    PATIENCE_S = options.patience
    if options.smoke:
        USUAL, QUIET, wanted, options.tries = 2, 1.0, ["long_prompt"], 1
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"no fault {unknown[0]}; there are: {', '.join(names)}")
    # Above ordinary work, as far as that is allowed, so that a busy machine counts less. The hogs
    # inherit it.
    with contextlib.suppress(OSError):
        os.nice(-15)
        # With autogroups a nice value counts within its session only. ./dev has made one for it.
        if os.getsid(0) != os.getpid():
            os.setsid()
        Path("/proc/self/autogroup").write_text("-15")
    results = []
    with scratch("explain") as own:
        # A copy of its own: pages that another server maps would not leave the page cache.
        MODEL = own / "model.gguf"
        shutil.copyfile(REAL, MODEL)
        running.run(["sync", MODEL])
        folder = Path(options.keep or own / "runs")
        folder.mkdir(exist_ok=True)
        for _ in range(options.rounds):
            for name in wanted:
                with Bench(folder, folder / "explain.sqlite") as bench:
                    result = result_of(bench, names[name], options.tries)
                results.append(result)
                print(json.dumps(result), flush=True)
    print_table(results)
    return 0


if __name__ == "__main__":
    running.main(main)
