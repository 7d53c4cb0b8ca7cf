"""Seeds of the server's fuzz entries: serve_seeds.py FOLDER, whose name tells the entry."""
import sys
from pathlib import Path

HTTP = [
    b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET http://h/state?x=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n"
    b"2\r\nde\r\n0\r\nT: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 600 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\n folded: x\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"",
]
API = [
    b'{"messages":[{"role":"user","content":"Hi"}],"stream":true,'
    b'"stream_options":{"include_usage":true},"rouse_timeline":true}',
    b'{"messages":[{"role":"user","content":[{"type":"text","text":"a"},'
    b'{"type":"text","text":"b"}]},{"role":"assistant","content":null}],"stop":["x","y"]}',
    b'{"prompt":"abc","max_tokens":5,"temperature":0,"top_p":0.5,"top_k":-1,"min_p":0,"seed":-1}',
    b'{"prompt":[[1,2,3]],"max_completion_tokens":8.0,"cache_prompt":false,"ignore_eos":true}',
    b'{"prompt":["a"],"n":1,"logit_bias":{},"tools":[],"response_format":{"type":"text"}}',
    b'{"prompt":"a","response_format":{"type":5},"logprobs":2,"echo":true}',
    b'{"model":"m","wait":true}',
    b'{"prompt":"\\ud83d\\ude00\\u0000","stop":""}',
    b'{"prompt":"a","max_tokens":1e400,"seed":18446744073709551615}',
    b"[" * 100,
    b'{"a":"\xff"}',
    b"null",
]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    for number, seed in enumerate(HTTP if "http" in folder.name else API):
        (folder / f"{number:02}").write_bytes(seed)


main()
