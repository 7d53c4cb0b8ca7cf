"""A small server that compiles what it computes with, as servers with CUDA, Triton or Vulkan
kernels do: the kernel of a shape is compiled at its first use, and kept as a file in the directory
that KERNEL_CACHE names; a later process loads that file instead.

  compiling_server.py PORT LOG [--elsewhere DIR]

The kernel is real C, generated for the shape and compiled by the system's compiler; the answer is
what it computes. Each compilation appends one line to LOG: its duration in ns. --elsewhere makes it
a server that does not heed the variable. KERNEL_CACHE unset: no cache, every process compiles."""
import ctypes
import http.server
import json
import os
import subprocess
import sys
import tempfile
import time

FUNCTIONS = 400  # some 0.5 s of the compiler


def source(width: int) -> str:
    lines = ["#include <stdint.h>"]
    for number in range(FUNCTIONS):
        lines.append(
            f"static float step{number}(const float *x) {{ float a = {number}.5f;\n"
            f"  for (int i = 0; i < {width}; ++i) a = a * 0.5f + x[i] * {number % 7 + 1}.0f;\n"
            "  return a; }")
    total = " + ".join(f"step{number}(x)" for number in range(FUNCTIONS))
    lines.append(f"float kernel(const float *x) {{ return {total}; }}")
    return "\n".join(lines)


class Kernels:
    def __init__(self, folder: str | None, log: str):
        self.folder = folder
        self.log = log
        self.loaded = {}

    def of(self, width: int):
        if width not in self.loaded:
            folder = self.folder or tempfile.mkdtemp()
            path = os.path.join(folder, f"kernel-{width}.so")
            if not os.path.exists(path):
                self.compile(width, path)
            library = ctypes.CDLL(path)
            library.kernel.restype = ctypes.c_float
            self.loaded[width] = library.kernel
        return self.loaded[width]

    def compile(self, width: int, path: str):
        start = time.monotonic_ns()
        with tempfile.NamedTemporaryFile("w", suffix=".c") as text:
            text.write(source(width))
            text.flush()
            # To a name of its own first: a process that dies half way leaves no half kernel.
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", path + ".new", text.name],
                           check=True)
        os.rename(path + ".new", path)
        with open(self.log, "a") as log:
            log.write(f"{time.monotonic_ns() - start}\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        numbers = (ctypes.c_float * 64)(*range(64))
        value = self.server.kernels.of(64)(numbers)
        events = [{"choices": [{"index": 0, "delta": {"content": f"{value:.1f}"}}]},
                  {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}]
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        body += b"data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *unused):
        pass


def main():
    port, log = int(sys.argv[1]), sys.argv[2]
    folder = sys.argv[4] if "--elsewhere" in sys.argv else os.environ.get("KERNEL_CACHE")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.kernels = Kernels(folder, log)
    server.serve_forever()


if __name__ == "__main__":
    main()
