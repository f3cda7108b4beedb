#!/usr/bin/env python3
"""Writes what the Python package gguf says about weight formats to tests/data/blocks.

    pip install gguf && scripts/make_block_goldens.py NAME...     for example IQ3_S

NAME.blocks: 8192 weights in blocks of random bits. NAME.f32: the weights, little-endian float32.
formats.json: GGUF's type number, weights and bytes of a block of every format in the folder.
"""

import json
import pathlib
import sys

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/blocks"
WEIGHTS = 8192


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


for name in sys.argv[1:]:
    write_blocks(name.upper())

names = {"F32"} | {file.stem.upper() for file in OUT.glob("*.blocks")}
formats = {}
for type_ in sorted(gguf.GGMLQuantizationType):
    if type_.name in names:
        elems, size = gguf.GGML_QUANT_SIZES[type_]
        formats[type_.name] = {"gguf": int(type_), "weights": elems, "bytes": size}
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in formats.items())
(OUT / "formats.json").write_text(f"{{\n{lines}\n}}\n")
