"""What bench/explain.py measures with: one stream's marks, the stages of a server's timeline,
counters from /proc, and a proxy that buffers. Knows nothing of faults."""
import contextlib
import json
import os
import re
import socket
import threading
import time
from pathlib import Path

STAGES = ("queue", "process_start", "weights", "runtime_init", "tokenize", "prefill",
          "first_decode", "transport", "unattributed")
PAGE = os.sysconf("SC_PAGESIZE")


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def disk_of(path):
    """(major, minor) of the disk that holds the file, as diskstats and blkio name it."""
    device = os.stat(path).st_dev
    return os.major(device), os.minor(device)


def counters_of(pid, model):
    """Totals; differences are stored. What is not there is left out."""
    totals = {}
    if pid:
        io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        totals["target_read_bytes"] = int(io["read_bytes"])
        stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        totals["target_major_faults"] = int(stat[9])
        waits = [int(task.joinpath("schedstat").read_text().split()[1])
                 for task in Path(f"/proc/{pid}/task").iterdir()]
        totals["target_run_queue_wait_ns"] = sum(waits)
    for resource in ("cpu", "io", "memory"):
        text = Path(f"/proc/pressure/{resource}")
        if text.exists():
            found = re.search(r"some .*total=(\d+)", text.read_text())
            totals[f"psi_{resource}_some_us"] = int(found[1])
    vmstat = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    reclaimed = [int(vmstat[name]) for name in ("pgsteal_kswapd", "pgsteal_direct",
                                                "pgsteal_khugepaged", "pgsteal_proactive")
                 if name in vmstat]
    totals["machine_reclaimed_bytes"] = sum(reclaimed) * PAGE
    totals["machine_swap_in_bytes"] = int(vmstat["pswpin"]) * PAGE
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        if (int(words[0]), int(words[1])) == disk_of(model):
            totals["machine_disk_read_bytes"] = int(words[5]) * 512
    return totals


def busy_ticks():
    """(ticks that any CPU worked, all ticks) since boot."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = list(map(int, words))
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def own_ticks(pid):
    if not pid:
        return 0
    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(stat[11]) + int(stat[12])


def reading(value, proof):
    return {"value": value, "proof": proof, "wanted": "", "reached": None, "detail": ""}


def stages_of(start, timeline, marks, process_start):
    """Exclusive stages that sum to the TTFT, by the rules of docs/method.md section 2."""
    ttft = marks["first_token"]
    stages = dict.fromkeys(STAGES, 0)
    begin = min(process_start, ttft)
    stages["process_start"] = begin
    place = begin
    segments = sorted((s["start_ns"] - start, s["end_ns"] - start, s["stage"])
                      for s in timeline["segments"])
    first = True
    for from_ns, to_ns, stage in segments:
        from_ns, to_ns = max(from_ns, place), min(to_ns, ttft)
        if to_ns <= from_ns:
            continue
        stages["transport" if first else "unattributed"] += from_ns - place
        stages[stage] += to_ns - from_ns
        place, first = to_ns, False
    stages["transport"] += ttft - place
    return stages


def read_stream(connection, marks, start):
    """Server-sent events until the end; returns the objects, marks stamped per read."""
    buffer, objects = b"", []
    headers = False
    while True:
        chunk = connection.recv(65536)
        stamp = now_ns() - start
        if not chunk:
            marks["end"] = stamp
            return objects
        buffer += chunk
        if not headers and b"\r\n\r\n" in buffer:
            marks["response_headers"] = stamp
            headers = True
            status = int(buffer.split(b" ", 2)[1])
            if status != 200:
                raise RuntimeError(f"status {status}: {buffer[-300:]!r}")
        while b"\n\n" in buffer:
            event, buffer = buffer.split(b"\n\n", 1)
            found = re.search(rb"data: (\{.*\})", event)
            if not found:
                continue
            item = json.loads(found[1])
            objects.append(item)
            choice = (item.get("choices") or [{}])[0]
            if (choice.get("delta") or {}).get("content"):
                marks.setdefault("first_token", stamp)
                marks["last_token"] = stamp
                marks["token_events"] = marks.get("token_events", 0) + 1


def connect(port, deadline):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        except ConnectionRefusedError:
            if now_ns() > deadline:
                raise
            time.sleep(0.002)


class BufferingProxy:
    """Forwards a request, collects the whole answer, and only then passes it on."""

    def __init__(self, port):
        self.target = port
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                with client, socket.create_connection(("127.0.0.1", self.target)) as server:
                    request = client.recv(1 << 20)
                    server.sendall(request)
                    answer = b""
                    while chunk := server.recv(65536):
                        answer += chunk
                    client.sendall(answer)
