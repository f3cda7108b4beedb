#!/usr/bin/env python3
"""Checks a GGUF that skald wrote, with the Python package gguf as an independent reader.

    check_gguf.py FILE [SOURCE.gguf]

Prints the contents of FILE and checks the properties that readers rely on. With SOURCE, a GGUF of
the same model in 16 or 32 bits (skald quantize FOLDER SOURCE.gguf --type f32), also decodes every
tensor and prints the error of each format. Needs: pip install gguf
"""
import sys
from collections import defaultdict

import gguf
import numpy as np

# The largest error allowed for a format, relative to a tensor's norm. Trained weights have about two
# thirds of it.
BOUNDS = {"F32": 0, "F16": 1e-3, "BF16": 5e-3, "Q8_0": 0.01, "Q6_K": 0.03, "Q5_K": 0.06, "Q5_1": 0.06,
          "Q5_0": 0.06, "Q4_K": 0.12, "Q4_1": 0.12, "Q4_0": 0.13}


def fail(message):
    sys.exit(f"check_gguf: {message}")


def decoded(tensor):
    return gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)


def check_vocabulary(fields, tensors):
    if "tokenizer.ggml.tokens" not in fields:
        return "no vocabulary"
    count = len(fields["tokenizer.ggml.tokens"].data)
    for key in ("tokenizer.ggml.scores", "tokenizer.ggml.token_type"):
        if key in fields and len(fields[key].data) != count:
            fail(f"{key} has {len(fields[key].data)} elements for {count} tokens")
    rows = int(tensors["token_embd.weight"].shape[1])
    if rows != count:
        fail(f"{count} tokens for {rows} rows of the embedding")
    kind = fields["tokenizer.ggml.model"].contents()
    pre = fields["tokenizer.ggml.pre"].contents() if "tokenizer.ggml.pre" in fields else "-"
    return f"vocabulary {kind} ({pre}), {count} tokens"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    reader = gguf.GGUFReader(sys.argv[1])
    tensors = {t.name: t for t in reader.tensors}
    place = reader.tensors[0].data_offset
    for t in reader.tensors:  # each starts where the one before ends, as llama.cpp requires
        if t.data_offset != place:
            fail(f"{t.name} is at {t.data_offset}, expected {place}")
        place += -(-int(t.n_bytes) // reader.alignment) * reader.alignment
    vocabulary = check_vocabulary(reader.fields, tensors)
    print(f"{sys.argv[1]}: {reader.fields['general.architecture'].contents()}, "
          f"{len(reader.fields)} entries, {len(tensors)} tensors, {vocabulary}")

    source = {t.name: t for t in gguf.GGUFReader(sys.argv[2]).tensors} if len(sys.argv) == 3 else None
    lost = defaultdict(list)
    for name, t in tensors.items():
        values = decoded(t)
        if not np.isfinite(values).all():
            fail(f"{name} holds what is no number")
        if source is not None:
            if name not in source:
                fail(f"{name} is not in {sys.argv[2]}")
            expected = decoded(source[name])
            lost[t.tensor_type.name].append(
                np.linalg.norm(values - expected) / max(np.linalg.norm(expected), 1e-300))
        else:
            lost[t.tensor_type.name].append(None)
    for kind, errors in lost.items():
        line = f"  {kind:5} {len(errors):4} tensors"
        if source is not None:
            line += f", lost of the norm {max(errors):.5f} at most"
        print(line)
        if source is not None and max(errors) > BOUNDS[kind]:
            fail(f"{kind} loses more than {BOUNDS[kind]}")


if __name__ == "__main__":
    main()
