#!/usr/bin/env python3
"""Writes the seed files of gguf_header_fuzz into a folder: sound little GGUF files, and faulty ones
that reach each check. Deterministic; run it to make a corpus: gguf_seeds.py FOLDER."""
import os
import struct
import sys


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    raw = value.encode()
    return u64(len(raw)) + raw


def head(tensors, entries, version=3):
    return b"GGUF" + u32(version) + u64(tensors) + u64(entries)


def entry(key, kind, payload):
    return text(key) + u32(kind) + payload


def tensor(name, dims, kind, offset):
    return text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def padded(raw, alignment=32):
    return raw + b"\0" * (-len(raw) % alignment)


SCALARS = [(0, b"\x07"), (1, b"\xff"), (2, b"\1\2"), (3, b"\1\2"), (4, u32(5)), (5, u32(6)),
           (6, struct.pack("<f", 1.5)), (7, b"\1"), (8, text("value")), (10, u64(7)), (11, u64(8)),
           (12, struct.pack("<d", 2.5))]


def seeds():
    yield "scalars", head(0, len(SCALARS)) + b"".join(
        entry(f"k{kind}", kind, payload) for kind, payload in SCALARS)
    yield "arrays", head(0, 2) + entry("a", 9, u32(8) + u64(2) + text("x") + text("yz")) + entry(
        "b", 9, u32(6) + u64(3) + b"\0" * 12)
    model = head(3, 2) + entry("general.architecture", 8, text("llama")) + entry(
        "general.alignment", 4, u32(64))
    model += tensor("token_embd.weight", [32, 2], 2, 0) + tensor("blk.0.attn_q.weight", [8], 0, 64)
    model += tensor("output.weight", [256], 14, 128)
    yield "model", padded(model, 64) + b"\0" * 384
    yield "model_version_2", b"GGUF" + u32(2) + padded(model, 64)[8:] + b"\0" * 384
    split = head(1, 3) + entry("split.no", 2, b"\1\0") + entry("split.count", 2, b"\3\0")
    split += entry("split.tensors.count", 5, u32(9)) + tensor("a", [8], 0, 0)
    yield "split", padded(split) + b"\0" * 32
    yield "cut", model[:80]
    yield "huge_counts", head(2**64 - 1, 2**64 - 1)
    yield "huge_string", head(0, 1) + u64(2**63) + b"\0" * 40
    yield "huge_array", head(0, 1) + entry("a", 9, u32(10) + u64(2**61))
    yield "huge_dims", padded(head(1, 0) + tensor("a", [2**31, 2**31, 2**31], 0, 0))
    overlap = head(2, 0) + tensor("a", [16], 0, 0) + tensor("b", [8], 0, 32)
    yield "overlap", padded(overlap) + bytes(64)
    yield "big_endian", b"GGUF\0\0\0\3" + b"\0" * 16
    yield "html", b"<!doctype html><html>"
    yield "safetensors", u64(40) + b'{"__metadata__":{}}'


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, raw in seeds():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(raw)


if __name__ == "__main__":
    main()
