#!/usr/bin/env python3
"""Writes tests/data/lora: tiny random adapters of tiny models beside them, saved by PEFT, and the logits that PEFT
computes with them in float32.

  pip install torch transformers peft && scripts/make_lora_goldens.py
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
FAMILIES = DATA / "families"
IDS = [1, 17, 30, 45, 9, 21, 40, 7, 5, 13, 44, 38]
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Name: the model in tests/data/families, and the adapter's configuration.
CASES = {
    "all": ("nemo", dict(r=2, lora_alpha=6, target_modules=ALL, rank_pattern={"down_proj": 3},
                         alpha_pattern={"layers.1.self_attn.q_proj": 11})),
    "rslora": ("nemo", dict(r=3, lora_alpha=4, target_modules=["q_proj", "v_proj"], use_rslora=True)),
    "fused": ("longrope", dict(r=2, lora_alpha=4, target_modules=["qkv_proj", "o_proj", "gate_up_proj"])),
}


def load(base):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(FAMILIES / base / "config.json", folder)
        weights = json.loads((FAMILIES / base / "golden.json").read_text())["weights"]
        shutil.copy(FAMILIES / weights, pathlib.Path(folder) / "model.safetensors")
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def randomize(model, seed):
    torch.manual_seed(seed)
    for name, weight in sorted(model.named_parameters()):
        if "lora_" in name:
            # Values of 16 bits, so that a file in 16 bits would hold the same ones.
            weight.data = (0.1 * torch.randn_like(weight)).bfloat16().float()


def logits(model):
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0].numpy().astype("<f4")


def save(folder, model, base):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


def main():
    (DATA / "lora").mkdir(exist_ok=True)
    for seed, (name, (base, config)) in enumerate(CASES.items()):
        model = get_peft_model(load(base), LoraConfig(**config))
        randomize(model, seed)
        save(DATA / "lora" / name, model, base)
        np.save(DATA / "lora" / name / "logits.npy", logits(model.eval()))
    both = get_peft_model(load("nemo"), LoraConfig(**CASES["all"][1]))
    both.load_adapter(DATA / "lora" / "all", "first")
    both.load_adapter(DATA / "lora" / "rslora", "second")
    both.base_model.set_adapter(["first", "second"])
    np.save(DATA / "lora" / "both.npy", logits(both.eval()))
    (DATA / "lora" / "ids.json").write_text(json.dumps({"input_ids": IDS}) + "\n")


main()
