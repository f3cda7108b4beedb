#!/usr/bin/env python3
"""Computes skald's perplexity protocols with Hugging Face transformers, in plain loops, for comparison.

    scripts/perplexity_transformers.py MODEL_FOLDER TEXT hf:CTX:STRIDE|gptq:CTX|doc:CTX

Float32 on the CPU. Prints JSON: the perplexity of all scored tokens, the number of tokens, and for hf also
the value with the weights of the transformers page on perplexity. Needs torch and transformers (and
sentencepiece if the tokenizer needs it).
"""
import json
import math
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def window_nlls(model, ids, scored):
    """The values -log p of the last `scored` ids."""
    with torch.no_grad():
        logits = model(torch.tensor([ids[:-1]])).logits[0].double()
    logprobs = torch.log_softmax(logits, dim=-1)
    targets = torch.tensor(ids[1:])
    return -logprobs[torch.arange(len(targets)), targets][-scored:]


def gptq(model, ids, context):
    nlls = [window_nlls(model, ids[i : i + context], context - 1)
            for i in range(0, len(ids) - context + 1, context)]
    return torch.cat(nlls), None


def hf(model, ids, context, stride):
    nlls, page_sum, page_weight, seen = [], 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        labels = end - seen
        scored = min(labels, end - begin - 1)
        if scored:
            nlls.append(window_nlls(model, ids[begin:end], scored))
            page_sum += nlls[-1].mean().item() * (labels - 1)
            page_weight += labels - 1
        seen = end
        if end == len(ids):
            break
    return torch.cat(nlls), math.exp(page_sum / page_weight)


def doc(model, ids, context, prefix):
    """As in lm-evaluation-harness: get_rolling_token_windows with context_len 1, made disjoint."""
    nlls, done = [], 0
    while done < len(ids):
        scored = min(len(ids) - done, context)
        end = done + scored
        first = done if scored == context else max(end - context, 0)
        nlls.append(window_nlls(model, ([prefix] + ids)[first : end + 1], scored))
        done = end
    return torch.cat(nlls), None


def main():
    folder, text_file, protocol = sys.argv[1:4]
    name, *numbers = protocol.split(":")
    numbers = [int(n) for n in numbers]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with open(text_file, encoding="utf-8", newline="") as file:
        text = file.read()
    ids = tokenizer(text, add_special_tokens=name != "doc", verbose=False).input_ids
    if name == "doc":
        numbers.append(tokenizer.bos_token_id)
    nlls, page = {"hf": hf, "gptq": gptq, "doc": doc}[name](model, ids, *numbers)
    result = {"perplexity": math.exp(nlls.mean().item()), "tokens": len(nlls), "text_tokens": len(ids)}
    if page:
        result["page_perplexity"] = page
    print(json.dumps(result))


if __name__ == "__main__":
    main()
