"""No observer effect on a server that rouse did not start: while a condition idles, llama-server
does no more than it does by itself when nobody measures it."""
import contextlib
import json
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest

IDLE_S = 4.0


@pytest.fixture
def llama(llama_server, model, tmp_path, free_port):
    log = open(tmp_path / "llama.log", "wb")
    process = subprocess.Popen(
        [str(llama_server), "-m", str(model), "--port", str(free_port), "-c", "256", "-np", "1",
         "--fit", "off", "--no-ui", "-t", "1"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{free_port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(url + "/health", timeout=2) as answer:
                    if answer.status == 200:
                        break
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        yield process.pid, url
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def waits(pid: int) -> int:
    """How often its threads have gone to sleep: some three times for an answer to anything, be it
    /health, however busy the machine is; by itself llama-server does it once a second."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += sum(int(line.split()[1]) for line in (task / "status").read_text().splitlines()
                         if line.startswith("voluntary_ctxt_switches:"))
    return total


def answer_once(url: str):
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", body,
                                     {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=60).read()


@pytest.mark.timeout(150)
def test_while_idling_llama_server_does_no_more_than_by_itself(llama, run_rouse, tmp_path):
    pid, url = llama
    answer_once(url)
    time.sleep(0.5)
    before, since = waits(pid), time.monotonic()
    time.sleep(IDLE_S - 0.4)
    by_itself = (waits(pid) - before) / (time.monotonic() - since)

    samples: list[tuple[float, int]] = []
    done = threading.Event()

    def sample():
        while not done.is_set():
            samples.append((time.time(), waits(pid)))
            time.sleep(0.05)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    plan = tmp_path / "plan.toml"
    plan.write_text('[experiment]\nname = "i"\nrepeat = 1\nsentinel = true\n[target]\n'
                    f'kind = "llama-server"\nurl = "{url}"\n'
                    f'[[condition]]\nname = "idle"\nidle = "{IDLE_S:.0f}s"\n')
    answer = run_rouse("measure", plan, "--json")
    done.set()
    sampler.join()
    assert answer.status == 0, answer.stderr
    attempt = [each for each in answer.json()["attempts"] if each["block"] is not None][0]
    assert attempt["outcome"] == "ok", attempt["outcome_detail"]
    # The sentinel's own 0.4 s lie between the idle time and the request.
    sent = attempt["started_wall_ns"] / 1e9
    idle = [each for each in samples if sent - IDLE_S - 0.2 <= each[0] <= sent - 0.6]
    looked_on_s = idle[-1][0] - idle[0][0] if idle else 0
    assert looked_on_s > 1, "it was not looked at for long enough"
    more = idle[-1][1] - idle[0][1] - by_itself * looked_on_s
    assert more < 2, (more, by_itself, idle)
