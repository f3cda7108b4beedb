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

from golden_cases import CASES, VOCAB

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "families"
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
