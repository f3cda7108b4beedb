#!/usr/bin/env python3
"""Compares skald in lm-evaluation-harness with the harness's own transformers backend, on the bundled model.

    scripts/lm_eval_check.py PROGRAM [QUESTIONS]    # needs lm_eval, torch, transformers, sentencepiece

The tasks are made from tests/data/demo_heldout.txt: choose the sentence that continues a story (the others
are from other stories), and the stories' rolling log-likelihood. Fails if an accuracy differs at all, or a
perplexity by more than 1e-4. Rolling texts are compared without BOS: lm_eval 0.4.13 puts BOS before a text
twice and scores the second one, skald does not.
"""
import json
import math
import random
import re
import sys
import tempfile
from pathlib import Path

import lm_eval
import lm_eval.models.huggingface
from lm_eval.tasks import TaskManager

import lm_eval_adapter  # noqa: F401  registers "skald"

ROOT = Path(__file__).resolve().parent.parent

CHOICE = """task: skald_choice
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/choice.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{context}}"
doc_to_choice: choices
doc_to_target: gold
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""
ROLLING = """task: skald_rolling
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/rolling.jsonl}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list:
  - {metric: word_perplexity}
  - {metric: byte_perplexity}
  - {metric: bits_per_byte}
"""


def make_tasks(folder, questions):
    stories = (ROOT / "tests/data/demo_heldout.txt").read_text(encoding="utf-8").strip().split("\n\n")
    sentences = [re.split(r"(?<=[.!?])\s+", story) for story in stories]
    draw = random.Random(1)
    with open(folder / "choice.jsonl", "w", encoding="utf-8") as file:
        for number in range(questions):
            own = number % len(sentences)
            at = draw.randrange(2, len(sentences[own]) - 1)
            others = draw.sample([i for i in range(len(sentences)) if i != own], 3)
            choices = [" " + sentences[own][at]] + [" " + draw.choice(sentences[i]) for i in others]
            # The words of the right answer, shuffled, make a harder wrong answer.
            words = sentences[own][at].split()
            draw.shuffle(words)
            choices[3] = " " + " ".join(words)
            gold = draw.randrange(4)
            choices[0], choices[gold] = choices[gold], choices[0]
            context = " ".join(sentences[own][max(0, at - 4) : at])
            file.write(json.dumps({"context": context, "choices": choices, "gold": gold}) + "\n")
    with open(folder / "rolling.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": story}) + "\n" for story in stories)
    (folder / "choice.yaml").write_text(CHOICE.replace("FOLDER", str(folder)))
    (folder / "rolling.yaml").write_text(ROLLING.replace("FOLDER", str(folder)))


def evaluate(model, arguments, tasks, folder):
    results = lm_eval.simple_evaluate(
        model=model, model_args=arguments, tasks=tasks,
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        log_samples=True, bootstrap_iters=0)
    numbers = {}
    for task, values in results["results"].items():
        for name, value in values.items():
            if name.endswith(",none") and "stderr" not in name and isinstance(value, float):
                numbers[f"{task} {name[:-5]}"] = value
    scores = [response[0] for sample in results["samples"]["skald_choice"]
              for response in (r[0] for r in sample["resps"])]
    return numbers, scores


def compare(bos, tasks, folder):
    model = ROOT / "models/demo"
    theirs, their_scores = evaluate(
        "hf", f"pretrained={model},dtype=float32,device=cpu,add_bos_token={bos}", tasks, folder)
    ours, our_scores = evaluate(
        "skald", f"pretrained={model},program={sys.argv[1]},exact=True,device=cpu,add_bos={bos}", tasks, folder)
    failed = False
    for key, value in theirs.items():
        same = value == ours[key] if " acc" in key else abs(math.log(value / ours[key])) <= 1e-4
        failed |= not same
        print(f"{key:32} transformers {value:.10g}  skald {ours[key]:.10g}  {'same' if same else 'DIFFERENT'}")
    largest = max(abs(float(a) - float(b)) for a, b in zip(their_scores, our_scores))
    print(f"BOS {bos}: largest difference of {len(their_scores)} log-likelihoods: {largest:.2e}")
    return failed


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_tasks(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 60)
        failed = compare(True, ["skald_choice"], folder)
        failed |= compare(False, ["skald_choice", "skald_rolling"], folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
