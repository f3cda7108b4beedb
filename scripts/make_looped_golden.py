#!/usr/bin/env python3
"""Writes tests/data/families/nanbeige: a tiny looped model, whose weights are those of "nemo" beside it, and its
logits. transformers has no such model, so the forward pass is here, in float64. With one loop it must give
the logits that transformers gave for "nemo".

  pip install numpy && scripts/make_looped_golden.py
"""

import json
import pathlib
import struct

import numpy as np

FAMILIES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "families"
LOOPS, BASE, TOKENS, PROMPT, COUNT = 2, 7e7, 27, 5, 12


def read_weights(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    weights = {}
    for name, tensor in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        assert tensor["dtype"] == "F16"
        begin, end = (8 + size + at for at in tensor["data_offsets"])
        weights[name] = np.frombuffer(data[begin:end], "<f2").astype(np.float64).reshape(tensor["shape"])
    return weights


def norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotated(x, base):
    """x: [tokens, heads, dims]; the pairs are the halves of a head."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None, None] * base ** (-np.arange(half) / half)
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * np.cos(angles) - high * np.sin(angles), high * np.cos(angles) + low * np.sin(angles)], -1)


def attention(c, w, name, x):
    heads, kv, dims = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    q, k, v = ((x @ w[f"{name}self_attn.{part}_proj.weight"].T).reshape(len(x), -1, dims) for part in "qkv")
    q, k = rotated(q, c["rope_theta"]), rotated(k, c["rope_theta"])
    k, v = np.repeat(k, heads // kv, axis=1), np.repeat(v, heads // kv, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(dims)
    scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = np.einsum("hij,jhd->ihd", shares, v).reshape(len(x), -1)
    return mixed @ w[f"{name}self_attn.o_proj.weight"].T


def logits_of(c, w, ids):
    eps = c["rms_norm_eps"]
    x = w["model.embed_tokens.weight"][ids]
    for loop in range(c.get("num_loops", 1)):
        if loop > 0 and not c.get("skip_loop_final_norm", False):
            x = norm(x, w["model.norm.weight"], eps)
        for layer in range(c["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            x = x + attention(c, w, name, norm(x, w[name + "input_layernorm.weight"], eps))
            h = norm(x, w[name + "post_attention_layernorm.weight"], eps)
            gate, up = (h @ w[f"{name}mlp.{part}_proj.weight"].T for part in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[name + "mlp.down_proj.weight"].T
    return norm(x, w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def described(c, w):
    ids = [1] + [int(i) for i in np.random.default_rng(20).integers(3, c["vocab_size"], TOKENS - 1)]
    logits = logits_of(c, w, ids)
    shares = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    rows = sorted({*range(0, TOKENS, 5), TOKENS - 1})
    greedy, margins = ids[:PROMPT], []
    for _ in range(COUNT):
        last = logits_of(c, w, greedy)[-1]
        second, best = np.sort(last)[-2:]
        greedy.append(int(last.argmax()))
        margins.append(round(float(best - second), 6))
    golden = {
        "input_ids": ids,
        "mean_nll": float(-np.mean(shares[np.arange(TOKENS - 1), ids[1:]])),
        "logit_rows": rows,
        "context": 64,
        "greedy_prompt_ids": ids[:PROMPT],
        "greedy_ids": greedy[PROMPT:],
        "greedy_margins": margins,
    }
    return golden, logits[rows]


def gguf_head(c, llama):
    """The head of a GGUF with the tensors of `llama`, a head of the architecture llama, and Nanbeige's keys."""
    magic, version, tensors, _ = struct.unpack_from("<4sIQQ", llama)

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    def u32(key, value):
        return text("nanbeige." + key) + struct.pack("<II", 4, value)

    def f32(key, value):
        return text("nanbeige." + key) + struct.pack("<If", 6, value)

    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("nanbeige"),
        u32("block_count", c["num_hidden_layers"]),
        u32("context_length", c["max_position_embeddings"]),
        u32("embedding_length", c["hidden_size"]),
        u32("feed_forward_length", c["intermediate_size"]),
        u32("attention.head_count", c["num_attention_heads"]),
        u32("attention.head_count_kv", c["num_key_value_heads"]),
        u32("attention.key_length", c["head_dim"]),
        u32("attention.value_length", c["head_dim"]),
        f32("attention.layer_norm_rms_epsilon", c["rms_norm_eps"]),
        f32("rope.freq_base", c["rope_theta"]),
        u32("rope.dimension_count", c["head_dim"]),
        u32("num_loops", c["num_loops"]),
        text("nanbeige.skip_loop_final_norm") + struct.pack("<IB", 7, c["skip_loop_final_norm"]),
    ]
    begin = llama.index(text("token_embd.weight"))  # the first tensor: what is before it are keys
    head = struct.pack("<4sIQQ", magic, version, tensors, len(keys)) + b"".join(keys)
    head += llama[begin : end_of_tensors(llama, begin, tensors)]
    return head + b"\0" * (-len(head) % 32)


def end_of_tensors(data, at, count):
    """Where `count` descriptions of tensors, which begin at `at`, end."""
    for _ in range(count):
        (size,) = struct.unpack_from("<Q", data, at)
        at += 8 + size
        (dims,) = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dims + 4 + 8
    return at


def main():
    nemo = json.loads((FAMILIES / "nemo/config.json").read_text())
    weights = read_weights(FAMILIES / "plain.safetensors")
    known = json.loads((FAMILIES / "nemo/text.json").read_text())
    expected = np.load(FAMILIES / "nemo/text.npy")
    error = np.abs(logits_of(nemo, weights, known["input_ids"])[known["logit_rows"]] - expected).max()
    assert error < 2e-5, f"one loop differs from transformers by {error}"

    config = {
        **nemo,
        "architectures": ["NanbeigeForCausalLM"],
        "model_type": "nanbeige",
        "rope_theta": BASE,
        "num_loops": LOOPS,
        "loop_loss_weights": [],
        "skip_loop_final_norm": False,
    }
    del config["sliding_window"]
    folder = FAMILIES / "nanbeige"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    golden, logits = described(config, weights)
    (folder / "text.json").write_text(json.dumps(golden) + "\n")
    np.save(folder / "text.npy", logits.astype("<f4"))
    llama = (FAMILIES / "nemo/head.gguf").read_bytes()
    (folder / "head.gguf").write_bytes(gguf_head(config, llama))
    names = {"weights": "plain.safetensors", "texts": ["text"], "gguf": "plain.gguf-data"}
    (folder / "golden.json").write_text(json.dumps(names) + "\n")
    print(f"one loop differs from transformers by {error:.1e}; largest logit {np.abs(logits).max():.2f}")


if __name__ == "__main__":
    main()
