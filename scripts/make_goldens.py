#!/usr/bin/env python3
"""Writes tests/data/families: tiny models of families and rope scalings, and the results of Hugging Face
transformers in float32.

The folder of a model has config.json as its publisher writes it, and golden.json, which names its
texts. TEXT.json has the ids of a text, their mean negative log-likelihood, and greedy tokens with
their margins; TEXT.npy has some rows of logits. Models share random weights: "weights" in golden.json
names a safetensors file beside the folders. Where golden.json has "gguf", head.gguf is the head of a
GGUF, written by the gguf package; "gguf" names the file with its tensor data.

  pip install torch transformers gguf && scripts/make_goldens.py [NAME...]
"""

import json
import math
import pathlib
import shutil
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "families"
VOCAB = 48
PLAIN = {  # the heads' dimensions do not add up to the width, as in Mistral Nemo
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FUSED = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def plain(model_type, **more):
    name = {"llama": "Llama", "mistral": "Mistral", "ministral": "Ministral", "granite": "Granite", "smollm3": "SmolLM3"}
    return {"architectures": [name[model_type] + "ForCausalLM"], "model_type": model_type, **PLAIN, **more}


LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0, 1.02, 1.05, 1.1, 1.3, 1.4],
    "long_factor": [1.05, 1.3, 2.1, 3.7, 5.9, 7.7],
}

SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def small(name, **more):
    return {"architectures": [name + "ForCausalLM"], "model_type": name.lower(), **SMALL, **more}


# For each text: its number of tokens, the context (0: the model's own), the length of the prompt for
# greedy tokens, and the number of greedy tokens.
TEXT = {"text": (48, 0, 8, 16)}
CASES = {
    "nemo": dict(
        config=plain("mistral", max_position_embeddings=128, rope_theta=1000000.0, sliding_window=None),
        weights="plain",
        gguf="llama",
        texts=TEXT,
    ),
    "ministral": dict(
        config=plain(
            "ministral",
            max_position_embeddings=128,
            rope_theta=100000.0,
            sliding_window=9,
            layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        ),
        weights="plain",
        texts=TEXT,
    ),
    "yarn": dict(
        config=plain(
            "llama",
            max_position_embeddings=128,
            rope_theta=10000.0,
            rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 8.0},
        ),
        weights="plain",
        gguf="llama",
        texts={"text": (96, 0, 40, 16)},
    ),
    "dynamic": dict(
        config=plain(
            "llama", max_position_embeddings=32, rope_theta=10000.0, rope_scaling={"type": "dynamic", "factor": 3.0}
        ),
        weights="plain",
        # Beyond the original context transformers changes the rotation with each new token, but not
        # that of cached tokens. No fixed context gives the same greedy tokens.
        texts={"short": (32, 0, 8, 16), "long": (64, 64, 0, 0)},
    ),
    "granite": dict(
        config=plain(
            "granite",
            max_position_embeddings=128,
            rope_theta=10000.0,
            embedding_multiplier=3.5,
            attention_multiplier=0.17,
            residual_multiplier=0.35,
            logits_scaling=1.7,
            attention_bias=False,
            mlp_bias=False,
        ),
        weights="plain",
        gguf="granite",
        texts=TEXT,
    ),
    "smollm3": dict(
        config=plain(
            "smollm3",
            max_position_embeddings=128,
            rope_theta=2000000.0,
            pad_token_id=0,
            use_sliding_window=False,
            sliding_window=None,
            no_rope_layers=[1, 1, 1, 0],
            no_rope_layer_interval=4,
        ),
        weights="plain",
        gguf="smollm3",
        texts=TEXT,
    ),
    "longrope": dict(
        config={
            "architectures": ["Phi3ForCausalLM"],
            "model_type": "phi3",
            **FUSED,
            "max_position_embeddings": 128,
            "original_max_position_embeddings": 32,
            "partial_rotary_factor": 0.75,
            "rope_theta": 10000.0,
            "rope_scaling": LONGROPE,
            "sliding_window": 21,
            "pad_token_id": 0,
            "attention_bias": False,
        },
        weights="fused",
        gguf="phi3",
        texts={"short": (32, 0, 8, 16), "long": (72, 128, 40, 16)},
    ),
    "qwen3": dict(
        config=small("Qwen3", head_dim=12, hidden_act="silu", rope_theta=1000000.0, tie_word_embeddings=True),
        gguf="qwen3",
        texts=TEXT,
    ),
    "qwen3-window": dict(
        config=small(
            "Qwen3",
            head_dim=12,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            use_sliding_window=True,
            sliding_window=7,
            max_window_layers=1,
        ),
        weights="qwen3",
        texts=TEXT,
    ),
    "qwen3moe": dict(
        config=small(
            "Qwen3Moe",
            model_type="qwen3_moe",
            head_dim=12,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            norm_topk_prob=True,
            decoder_sparse_step=1,
            mlp_only_layers=[],
        ),
        gguf="qwen3moe",
        texts=TEXT,
    ),
    "qwen3moe-dense": dict(
        config=small(
            "Qwen3Moe",
            model_type="qwen3_moe",
            head_dim=12,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            num_experts=4,
            num_experts_per_tok=3,
            moe_intermediate_size=8,
            norm_topk_prob=False,
            decoder_sparse_step=1,
            mlp_only_layers=[1],
            use_sliding_window=True,
            sliding_window=9,
        ),
        texts=TEXT,
    ),
    "mixtral": dict(
        config=small(
            "Mixtral",
            num_hidden_layers=1,
            intermediate_size=8,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=None,
        ),
        texts=TEXT,
    ),
    "gemma": dict(
        config=small("Gemma", head_dim=12, hidden_act="gelu_pytorch_tanh", hidden_activation=None),
        gguf="gemma",
        texts=TEXT,
    ),
    "gemma2": dict(
        config=small(
            "Gemma2",
            num_hidden_layers=3,
            head_dim=8,
            hidden_act="gelu_pytorch_tanh",
            hidden_activation="gelu_pytorch_tanh",
            query_pre_attn_scalar=8,
            sliding_window=7,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=5.0,
            cache_implementation="hybrid",
        ),
        gguf="gemma2",
        texts=TEXT,
    ),
    "gemma3": dict(
        config=small(
            "Gemma3",
            model_type="gemma3_text",
            num_hidden_layers=4,
            head_dim=8,
            hidden_activation="gelu_pytorch_tanh",
            query_pre_attn_scalar=8,
            sliding_window=7,
            sliding_window_pattern=3,
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
        ),
        gguf="gemma3",
        texts=TEXT,
    ),
    "olmo2": dict(
        config=small("Olmo2", hidden_act="silu", rope_theta=500000.0, tie_word_embeddings=False),
        gguf="olmo2",
        texts=TEXT,
    ),
    "olmo3": dict(
        config=small(
            "Olmo3",
            hidden_act="silu",
            rope_theta=500000.0,
            tie_word_embeddings=False,
            sliding_window=7,
            layer_types=["sliding_attention", "full_attention"],
            rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 8.0},
        ),
        weights="olmo2",
        gguf="olmo2",
        texts={"text": (96, 0, 40, 16)},
    ),
}

PERMUTED = {"llama", "granite", "smollm3"}  # architectures for which GGUF stores heads interleaved


def norms_of(c, layer):
    """The norms of a layer with their sizes, in the order of the layer."""
    dim, kind = c["hidden_size"], c["model_type"]
    name = f"model.layers.{layer}."
    norms = {} if kind.startswith("olmo") else {name + "input_layernorm.weight": dim}
    norms[name + "post_attention_layernorm.weight"] = dim
    if kind in ("gemma2", "gemma3_text"):
        norms[name + "pre_feedforward_layernorm.weight"] = dim
    if kind in ("gemma2", "gemma3_text", "olmo2", "olmo3"):
        norms[name + "post_feedforward_layernorm.weight"] = dim
    if kind in ("qwen3", "qwen3_moe", "gemma3_text", "olmo2", "olmo3"):
        head = c.get("head_dim", dim // c["num_attention_heads"])
        whole = kind.startswith("olmo")
        norms[name + "self_attn.q_norm.weight"] = head * (c["num_attention_heads"] if whole else 1)
        norms[name + "self_attn.k_norm.weight"] = head * (c["num_key_value_heads"] if whole else 1)
    return norms


def experts_of(c, layer):
    """A layer's number of experts (0: a plain feed-forward), their size, the router's name and the parts' names."""
    if c["model_type"] == "mixtral":
        names = "block_sparse_moe.experts.{}.w1 block_sparse_moe.experts.{}.w3 block_sparse_moe.experts.{}.w2"
        return c["num_local_experts"], c["intermediate_size"], "block_sparse_moe.gate", names.split()
    if c["model_type"] == "qwen3_moe" and layer not in c["mlp_only_layers"]:
        names = "mlp.experts.{}.gate_proj mlp.experts.{}.up_proj mlp.experts.{}.down_proj"
        return c["num_experts"], c["moe_intermediate_size"], "mlp.gate", names.split()
    return 0, 0, "", []


def random_weights(c):
    """Random weights in float16, so large that attention scores and logits are far from uniform."""
    generator = torch.Generator().manual_seed(20)
    fused = c["model_type"] == "phi3"
    usual = 0 if c["model_type"].startswith("gemma") else 1  # Gemma adds the 1 itself

    def matrix(rows, cols, size=1.7):
        return (torch.randn(rows, cols, generator=generator) * size / math.sqrt(cols)).half()

    def norm(size, more=0):
        return (usual + more + 0.2 * torch.randn(size, generator=generator)).half()

    dim, ffn = c["hidden_size"], c["intermediate_size"]
    head = c.get("head_dim", dim // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    # Gemma scales its embeddings itself.
    weights = {"model.embed_tokens.weight": matrix(c["vocab_size"], dim, 4 if usual else 1.5)}
    for layer in range(c["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        for norm_name, size in norms_of(c, layer).items():
            # A layer's output must outweigh the embedding; else the best token is always the last one.
            weights[norm_name] = norm(size, more=0 if usual else 2 * ("post_" in norm_name))
        experts, expert_ffn, router, parts = experts_of(c, layer)
        if experts:
            weights[f"{name}{router}.weight"] = matrix(experts, dim)
        for expert in range(experts):
            gate, up, down = (f"{name}{part.format(expert)}.weight" for part in parts)
            weights[gate], weights[up] = matrix(expert_ffn, dim), matrix(expert_ffn, dim)
            weights[down] = matrix(dim, expert_ffn, 4)  # larger, because the router weights experts by less than 1
        if fused:
            weights[name + "self_attn.qkv_proj.weight"] = matrix(q + 2 * kv, dim)
            weights[name + "mlp.gate_up_proj.weight"] = matrix(2 * ffn, dim)
        else:
            weights[name + "self_attn.q_proj.weight"] = matrix(q, dim)
            weights[name + "self_attn.k_proj.weight"] = matrix(kv, dim)
            weights[name + "self_attn.v_proj.weight"] = matrix(kv, dim)
            if not experts:
                weights[name + "mlp.gate_proj.weight"] = matrix(ffn, dim)
                weights[name + "mlp.up_proj.weight"] = matrix(ffn, dim)
        weights[name + "self_attn.o_proj.weight"] = matrix(dim, q)
        if not experts:
            weights[name + "mlp.down_proj.weight"] = matrix(dim, ffn)
    weights["model.norm.weight"] = norm(dim)
    if not c.get("tie_word_embeddings", c["model_type"].startswith("gemma")):
        weights["lm_head.weight"] = matrix(c["vocab_size"], dim, 3)
    return weights


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def describe(model, tokens, context, prompt, count):
    generator = torch.Generator().manual_seed(tokens)
    ids = [1] + torch.randint(3, VOCAB, (tokens - 1,), generator=generator).tolist()
    logits = logits_of(model, ids)
    nll = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:]))
    rows = sorted({*range(0, tokens, 5), tokens - 1})
    golden = {"input_ids": ids, "mean_nll": float(nll), "logit_rows": rows, "context": context}
    if count:
        greedy, margins = ids[:prompt], []
        for _ in range(count):
            best = logits_of(model, greedy)[-1].topk(2)
            greedy.append(int(best.indices[0]))
            margins.append(round(float(best.values[0] - best.values[1]), 6))
        golden |= {"greedy_prompt_ids": ids[:prompt], "greedy_ids": greedy[prompt:], "greedy_margins": margins}
    return golden, logits[rows].numpy()


def permuted(weight, heads):
    """The rows of query or key weights in GGUF's order for interleaved heads."""
    rows, cols = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def stacked(c, weights):
    """The weights with each layer's experts stacked in one tensor, under GGUF's names."""
    weights = dict(weights)
    for layer in range(c["num_hidden_layers"]):
        experts, _, _, parts = experts_of(c, layer)
        for part, name in zip(parts, ("gate", "up", "down")):
            all_of_them = [weights.pop(f"model.layers.{layer}.{part.format(e)}.weight") for e in range(experts)]
            weights[f"blk.{layer}.ffn_{name}_exps.weight"] = torch.stack(all_of_them)
    return weights


def write_gguf(path, arch, c, weights):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    head = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    if arch not in ("gemma", "gemma2"):
        writer.add_rope_freq_base(c["rope_theta"])
    if not arch.startswith("gemma"):
        writer.add_rope_dimension_count(int(head * c.get("partial_rotary_factor", 1)))
    if "head_dim" in c:
        writer.add_key_length(head)
        writer.add_value_length(head)
    if arch == "granite":
        writer.add_attention_scale(c["attention_multiplier"])
        writer.add_embedding_scale(c["embedding_multiplier"])
        writer.add_residual_scale(c["residual_multiplier"])
        writer.add_logit_scale(c["logits_scaling"])
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(c["final_logit_softcapping"])
    if arch in ("gemma2", "gemma3") or c["model_type"] == "olmo3":
        writer.add_sliding_window(c["sliding_window"])
    if c["model_type"] == "olmo3":
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in c["layer_types"]])
    if "sliding_window_pattern" in c:
        writer.add_sliding_window_pattern(c["sliding_window_pattern"])
    scaling = c.get("rope_scaling") or {}
    if scaling.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    if scaling.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(scaling["beta_fast"])
    factors = {}
    if arch == "phi3":
        original = c["original_max_position_embeddings"]
        writer.add_sliding_window(c["sliding_window"] or 0)
        writer.add_rope_scaling_orig_ctx_len(original)
        longer = math.log(c["max_position_embeddings"] / original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + longer / math.log(original)))
        for kind in ("long", "short"):
            factors[f"rope_factors_{kind}.weight"] = np.array(scaling[kind + "_factor"], np.float32)

    if arch == "qwen3moe":
        writer.add_expert_count(c["num_experts"])
        writer.add_expert_used_count(c["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(c["moe_intermediate_size"])

    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), c["num_hidden_layers"])
    for hf, tensor in stacked(c, weights).items():
        plain = tensor.ndim == 1 or hf.endswith("mlp.gate.weight")  # norms and routers
        data = tensor.float().numpy() if plain else tensor.numpy()
        if arch.startswith("gemma") and hf.endswith("norm.weight"):
            data = data + 1
        if arch in PERMUTED and hf.endswith("q_proj.weight"):
            data = permuted(data, c["num_attention_heads"])
        if arch in PERMUTED and hf.endswith("k_proj.weight"):
            data = permuted(data, c["num_key_value_heads"])
        name = hf if hf.startswith("blk.") else names.get_name(hf, (".weight",))
        writer.add_tensor(name, np.ascontiguousarray(data))
    for name, data in factors.items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(name, case):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = case["config"]
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shared = OUT / f"{case.get('weights', name)}.safetensors"
    weights = random_weights(config)
    save_file(weights, shared, metadata={"format": "pt"})
    golden = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "weights": shared.name,
        "texts": list(case["texts"]),
    }
    with tempfile.TemporaryDirectory() as temp:
        shutil.copy(shared, f"{temp}/model.safetensors")
        shutil.copy(folder / "config.json", temp)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            temp, attn_implementation="eager", dtype=torch.float32
        ).eval()
        if arch := case.get("gguf"):
            write_gguf(f"{temp}/m.gguf", arch, config, weights)
            start = gguf.GGUFReader(f"{temp}/m.gguf").data_offset
            whole = pathlib.Path(f"{temp}/m.gguf").read_bytes()
            (folder / "head.gguf").write_bytes(whole[:start])
            data = OUT / f"{case.get('weights', name)}.gguf-data"
            if data.exists() and data.read_bytes() != whole[start:]:
                sys.exit(f"{name}: its GGUF's data are not those of {data.name}; delete that to begin anew")
            data.write_bytes(whole[start:])
            golden["gguf"] = data.name
    for text, (tokens, context, prompt, count) in case["texts"].items():
        described, logits = describe(model, tokens, context, prompt, count)
        (folder / f"{text}.json").write_text(json.dumps(described) + "\n")
        np.save(folder / f"{text}.npy", logits.astype("<f4"))
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print(name, f"largest logit {np.abs(logits).max():.2f}", file=sys.stderr)


if __name__ == "__main__":
    torch.manual_seed(0)
    for name in sys.argv[1:] or CASES:
        make(name, CASES[name])
