"""Write a model folder that other programs can read, and read its weights back."""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file

from model import Config, Llama


def export(model, tokenizer_model, folder):
    """Round the weights to float16 and write all files of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {f"model.{name}": p.detach().cpu().half().contiguous() for name, p in model.named_parameters()}
    largest = max(w.float().abs().max().item() for w in weights.values())
    if not largest < 1000:
        raise ValueError(f"a weight of {largest} is too large for float16")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    shutil.copyfile(tokenizer_model, folder / "tokenizer.model")
    c = model.config
    _write(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16",
        "vocab_size": c.vocab_size, "hidden_size": c.hidden_size, "intermediate_size": c.intermediate_size,
        "num_hidden_layers": c.num_hidden_layers, "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_key_value_heads, "head_dim": c.head_dim, "hidden_act": "silu",
        "max_position_embeddings": c.max_position_embeddings, "rms_norm_eps": c.rms_norm_eps,
        "rope_theta": c.rope_theta, "rope_scaling": None, "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
        "initializer_range": 0.02, "use_cache": True})
    _write(folder / "generation_config.json", {
        "bos_token_id": 1, "eos_token_id": 2, "do_sample": True, "temperature": 0.8, "top_k": 40,
        "top_p": 0.95, "max_length": c.max_position_embeddings})
    _write(folder / "tokenizer_config.json", {
        "tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": False,
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None,
        "clean_up_tokenization_spaces": False, "model_max_length": c.max_position_embeddings})


def _write(path, values):
    path.write_text(json.dumps(values, indent=2) + "\n")


def load(folder, device="cpu", dtype=torch.float32):
    """Load the stored weights into a model of another type, for example float32."""
    values = json.loads((folder / "config.json").read_text())
    config = Config(**{name: values[name] for name in Config.__dataclass_fields__})
    model = Llama(config)
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict({name.removeprefix("model."): w.to(torch.float32) for name, w in weights.items()})
    return model.to(device, dtype).eval()
