#!/usr/bin/env python3
"""Writes what Python packages say about weight formats to tests/data/blocks: gguf, and for FP8
and NVFP4, which GGUF lacks, ml_dtypes.

    pip install gguf ml_dtypes && scripts/make_block_goldens.py NAME...     for example IQ3_S

NAME.blocks: 1280 weights in blocks of random bits. NAME.f32: the weights, little-endian float32.
formats.json: GGUF's type number, weights and bytes of a block of every format in the folder, and
"sha256": the hash of the weights of many_blocks(), which meet every entry of a grid. Numbers that are
not finite count as zero in it.
"""

import dataclasses
import hashlib
import json
import pathlib
import sys
import typing

import gguf
import ml_dtypes
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/blocks"
WEIGHTS = 1280
MANY = 1024  # blocks


@dataclasses.dataclass
class Format:
    name: str
    number: int  # GGUF's; -1: it has none
    elems: int
    size: int
    dequantize: typing.Callable


def of_gguf(type_):
    elems, size = gguf.GGML_QUANT_SIZES[type_]
    return Format(type_.name, int(type_), elems, size, lambda blocks: gguf.dequantize(blocks, type_))


def fp8_weights(blocks):
    scales = blocks[:, :4].copy().view("<f4")
    return scales * blocks[:, 4:].copy().view(ml_dtypes.float8_e4m3fn).astype(np.float32)


def nvfp4_weights(blocks):
    times, over = blocks[:, :4].copy().view("<f4"), blocks[:, 4:8].copy().view("<f4")
    groups = blocks[:, 8:24].copy().view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    scales = np.repeat(groups * times / over, 16, axis=1)
    codes = np.stack([blocks[:, 24:] & 15, blocks[:, 24:] >> 4], axis=2).reshape(len(blocks), 256)
    return codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32) * scales


FORMATS = [of_gguf(type_) for type_ in sorted(gguf.GGMLQuantizationType) if type_.name != "NVFP4"]
FORMATS.append(Format("FP8", -1, 128, 132, fp8_weights))
FORMATS.append(Format("NVFP4", -1, 256, 152, nvfp4_weights))  # not GGUF's, which lacks the first two floats


def quiet_weights(form, blocks):
    with np.errstate(invalid="ignore", over="ignore"):
        return form.dequantize(blocks).astype("<f4")


def write_blocks(name):
    form = next(form for form in FORMATS if form.name == name)
    random = np.random.default_rng(abs(form.number))
    blocks = np.empty((0, form.size), np.uint8)
    while len(blocks) < WEIGHTS // form.elems:
        more = random.integers(0, 256, (WEIGHTS, form.size), np.uint8)
        finite = np.isfinite(quiet_weights(form, more)).all(axis=1)  # random scales may not be
        blocks = np.concatenate([blocks, more[finite]])[: WEIGHTS // form.elems]
    (OUT / f"{name.lower()}.blocks").write_bytes(blocks.tobytes())
    (OUT / f"{name.lower()}.f32").write_bytes(quiet_weights(form, blocks).tobytes())


def many_blocks(size):
    """MANY blocks of pseudo-random bytes, the same as tests/engine/quant/quant_test.cpp makes."""
    state, out = 1, bytearray(MANY * size)
    for i in range(len(out)):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = state >> 24
    return np.frombuffer(bytes(out), np.uint8).reshape(MANY, size)


def hash_of(form):
    weights = quiet_weights(form, many_blocks(form.size))
    weights[~np.isfinite(weights)] = 0
    return hashlib.sha256(weights.tobytes()).hexdigest()


for name in sys.argv[1:]:
    write_blocks(name.upper())

names = {"F32"} | {file.stem.upper() for file in OUT.glob("*.blocks")}
formats = {}
for form in FORMATS:
    if form.name in names:
        formats[form.name] = {"gguf": form.number, "weights": form.elems, "bytes": form.size}
        if form.elems > 1:
            formats[form.name]["sha256"] = hash_of(form)
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in formats.items())
(OUT / "formats.json").write_text(f"{{\n{lines}\n}}\n")
