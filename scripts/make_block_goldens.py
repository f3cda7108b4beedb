#!/usr/bin/env python3
"""Writes what the Python package gguf says about weight formats to tests/data/blocks.

    pip install gguf && scripts/make_block_goldens.py NAME...     for example IQ3_S

NAME.blocks: 1280 weights in blocks of random bits. NAME.f32: the weights, little-endian float32.
formats.json: GGUF's type number, weights and bytes of a block of every format in the folder, and
"sha256": the hash of the weights of many_blocks(), which meet every entry of a grid. Numbers that are
not finite count as zero in it.
"""

import hashlib
import json
import pathlib
import sys

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/blocks"
WEIGHTS = 1280
MANY = 1024  # blocks


def write_blocks(name):
    type_ = gguf.GGMLQuantizationType[name]
    elems, size = gguf.GGML_QUANT_SIZES[type_]
    random = np.random.default_rng(int(type_))
    blocks = np.empty((0, size), np.uint8)
    while len(blocks) < WEIGHTS // elems:
        more = random.integers(0, 256, (WEIGHTS, size), np.uint8)
        finite = np.isfinite(gguf.dequantize(more, type_)).all(axis=1)  # random scales may not be
        blocks = np.concatenate([blocks, more[finite]])[: WEIGHTS // elems]
    (OUT / f"{name.lower()}.blocks").write_bytes(blocks.tobytes())
    (OUT / f"{name.lower()}.f32").write_bytes(gguf.dequantize(blocks, type_).astype("<f4").tobytes())


def many_blocks(size):
    """MANY blocks of pseudo-random bytes, the same as tests/engine/quant/quant_test.cpp makes."""
    state, out = 1, bytearray(MANY * size)
    for i in range(len(out)):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = state >> 24
    return np.frombuffer(bytes(out), np.uint8).reshape(MANY, size)


def hash_of(type_, size):
    with np.errstate(invalid="ignore", over="ignore"):
        weights = gguf.dequantize(many_blocks(size), type_).astype("<f4")
    weights[~np.isfinite(weights)] = 0
    return hashlib.sha256(weights.tobytes()).hexdigest()


for name in sys.argv[1:]:
    write_blocks(name.upper())

names = {"F32"} | {file.stem.upper() for file in OUT.glob("*.blocks")}
formats = {}
for type_ in sorted(gguf.GGMLQuantizationType):
    if type_.name in names:
        elems, size = gguf.GGML_QUANT_SIZES[type_]
        formats[type_.name] = {"gguf": int(type_), "weights": elems, "bytes": size}
        if elems > 1:
            formats[type_.name]["sha256"] = hash_of(type_, size)
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in formats.items())
(OUT / "formats.json").write_text(f"{{\n{lines}\n}}\n")
