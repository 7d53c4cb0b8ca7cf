"""Writes the seeds of one wire fuzz entry into a folder named <entry>_seeds, cut from the recorded
streams of tests/fixtures/wire: whole files, whole responses, bodies of one framing or one API."""
import base64
import json
import pathlib
import sys

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "wire"
# The ordinary tests run every beginning and every changed byte of every seed: it must stay quick.
TOTAL_BYTES = 10_000
NDJSON_APIS = {"ollama-generate", "ollama-chat"}


def unchunk(body):
    """The body without its chunk framing; as it is where it has none or a broken one."""
    plain = b""
    rest = body
    while b"\r\n" in rest:
        size, _, rest = rest.partition(b"\r\n")
        try:
            length = int(size.split(b";")[0], 16)
        except ValueError:
            return plain or body
        plain += rest[:length]
        rest = rest[length + 2:]
    return plain


def streams():
    """(name, api, response bytes, whole file) of each fixture."""
    for path in sorted(FIXTURES.glob("*.jsonl")):
        api, response = "", b""
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["kind"] == "request":
                api = entry["api"]
            elif entry["kind"] == "read":
                response += (base64.b64decode(entry["data_base64"]) if "data_base64" in entry
                             else entry["data"].encode())
        yield path.stem, api, response, path.read_bytes()


def seed_of(target, api, response, whole):
    body = unchunk(response.partition(b"\r\n\r\n")[2])
    framing = "ndjson" if api in NDJSON_APIS else "sse"
    if target == "recording":
        return whole
    if target == "http":
        return response
    if target in (framing, api.replace("-", "_")):
        return body
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    target = folder.name.removeprefix("wire_").removesuffix("_seeds")
    seeds = {}
    for name, api, response, whole in streams():
        seed = seed_of(target, api, response, whole)
        if seed:
            seeds[name] = seed
    if not seeds:
        sys.exit(f"no seeds for {target}")
    total = 0
    for name, seed in sorted(seeds.items(), key=lambda item: (len(item[1]), item[0])):
        total += len(seed)
        if total > TOTAL_BYTES:
            break
        (folder / name).write_bytes(seed)


main()
