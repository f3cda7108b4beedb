#!/usr/bin/env python3
"""Writes tests/data/rope/cases.json: rotation frequencies computed by Hugging Face transformers.

Each case has a configuration as in config.json, the number of tokens, and the resulting values of the
model's rotary embedding: inv_freq in float32 and the factor on cosines and sines.

PyTorch's code for AVX2 and AVX-512 computes some powers with an error of one unit in the last place.
Its plain code rounds correctly on every machine and is the reference here.

  pip install torch transformers && scripts/make_rope_cases.py   # made with transformers 5.17.0
"""

import importlib
import json
import math
import os
import pathlib
import sys

os.environ["ATEN_CPU_CAPABILITY"] = "default"
import torch  # noqa: E402
import transformers  # noqa: E402

HEADS = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}


def ramp(pairs, first, last):
    """Factors like those of longrope: rising, without a pattern in their digits."""
    return [round(first + (last - first) * (i / pairs) ** 1.7 + 0.013 * math.sin(i), 4) for i in range(pairs)]


def llama(**more):
    return {"model_type": "llama", "max_position_embeddings": 512, "rope_theta": 10000.0, **HEADS, **more}


def phi3(**more):
    return {
        "model_type": "phi3",
        "max_position_embeddings": 512,
        "original_max_position_embeddings": 64,
        "rope_theta": 10000.0,
        **HEADS,
        **more,
    }


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LONG = {"type": "longrope", "short_factor": ramp(32, 1.0, 1.4), "long_factor": ramp(32, 1.1, 31.0)}
LONG24 = {"type": "longrope", "short_factor": ramp(24, 1.0, 1.2), "long_factor": ramp(24, 1.0, 47.0)}

CASES = [
    ("plain", llama(), [8]),
    ("plain, head_dim 100", llama(head_dim=100, rope_theta=1e6), [8]),
    ("plain, wide", llama(head_dim=256, rope_theta=150000.0), [8]),
    ("linear", llama(rope_scaling={"type": "linear", "factor": 3.0}), [8]),
    (
        "llama3",
        llama(
            head_dim=128,
            rope_theta=500000.0,
            max_position_embeddings=131072,
            rope_scaling={
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        ),
        [8],
    ),
    ("dynamic", llama(rope_scaling={"type": "dynamic", "factor": 2.0}), [8, 512, 513, 700, 1024]),
    ("dynamic, a factor of 3.7", llama(head_dim=96, rope_scaling={"rope_type": "dynamic", "factor": 3.7}), [600, 1800]),
    ("yarn", llama(rope_scaling=YARN), [8]),
    ("yarn, transformers 5", llama(rope_theta=None, rope_parameters={**YARN, "rope_theta": 1e6}), [8]),
    ("yarn as Qwen2.5 documents it", llama(head_dim=128, rope_theta=1e6, max_position_embeddings=32768, rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}), [8]),
    ("yarn without its original context", llama(rope_scaling={"type": "yarn", "factor": 4.0}), [8]),
    ("yarn, attention factor", llama(rope_scaling={**YARN, "attention_factor": 0.75}), [8]),
    ("yarn, mscale", llama(rope_scaling={**YARN, "mscale": 0.707, "mscale_all_dim": 1.0}), [8]),
    ("yarn, one mscale alone", llama(rope_scaling={**YARN, "mscale": 0.707}), [8]),
    ("yarn, other betas", llama(rope_scaling={**YARN, "beta_fast": 16, "beta_slow": 2}), [8]),
    ("yarn, not truncated", llama(rope_scaling={**YARN, "truncate": False}), [8]),
    ("yarn, no factor", llama(rope_scaling={**YARN, "factor": None}), [8]),
    ("yarn, original context outside", llama(rope_scaling={"type": "yarn", "factor": 4.0}, original_max_position_embeddings=256), [8]),
    ("yarn, a ramp of no width", llama(head_dim=16, rope_scaling={**YARN, "beta_fast": 1, "beta_slow": 1}), [8]),
    ("longrope", phi3(rope_scaling=LONG), [8, 64, 65, 512]),
    ("longrope, oldest name", phi3(rope_scaling={**LONG, "type": "su", "original_max_position_embeddings": 64}), [8, 65]),
    ("longrope, called yarn", phi3(rope_scaling={**LONG, "type": "yarn"}), [8]),
    ("longrope, attention factor", phi3(rope_scaling={**LONG, "attention_factor": 1.25}), [8]),
    ("longrope, factor", phi3(rope_scaling={**LONG, "factor": 32.0}), [8]),
    ("longrope, no longer than before", phi3(original_max_position_embeddings=512, rope_scaling=LONG), [8]),
    ("longrope, partial", phi3(partial_rotary_factor=0.75, rope_scaling=LONG24), [8, 65]),
    ("longrope, partial, transformers 5", phi3(rope_parameters={**LONG24, "rope_type": "longrope", "rope_theta": 500000.0, "partial_rotary_factor": 0.75}), [8, 65]),
    ("partial", phi3(partial_rotary_factor=0.5), [8]),
]


def rotary(config, tokens):
    kind = {"llama": "Llama", "phi3": "Phi3"}[config["model_type"]]
    module = importlib.import_module(f"transformers.models.{config['model_type']}.modeling_{config['model_type']}")
    # A copy, because transformers changes the dictionaries that it gets.
    copied = json.loads(json.dumps(config))
    copied.pop("model_type")
    parsed = transformers.AutoConfig.for_model(config["model_type"], **copied)
    embedding = getattr(module, kind + "RotaryEmbedding")(parsed)
    embedding(torch.zeros(1), torch.arange(tokens)[None])
    return embedding


def main():
    cases = []
    for name, config, lengths in CASES:
        for tokens in lengths:
            embedding = rotary(config, tokens)
            cases.append(
                {
                    "name": name,
                    "config": config,
                    "tokens": tokens,
                    "scale": float(embedding.attention_scaling),
                    # nine digits determine a float32
                    "inv_freq": [float(f"{x:.9g}") for x in embedding.inv_freq.tolist()],
                }
            )
    out = pathlib.Path(__file__).parent.parent / "tests/data/rope/cases.json"
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    out.write_text(
        f'{{"transformers": "{transformers.__version__}", "torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n'
    )
    print(f"{out}: {len(cases)} cases, {out.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
