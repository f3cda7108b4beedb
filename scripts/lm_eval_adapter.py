#!/usr/bin/env python3
"""Runs lm-evaluation-harness with skald as its model: lm_eval's command line plus the model "skald".

    pip install lm_eval
    scripts/lm_eval_adapter.py run --model skald --tasks arc_easy \\
        --model_args pretrained=model.gguf,exact=True,program=build/cpu/skald

Log-likelihoods are computed by `skald score`, rolling ones (perplexity tasks) by `skald perplexity
--protocol doc`. Tasks that generate text are refused: use lm_eval's local-completions or `skald batch`.
Texts become ids as in lm_eval's own Hugging Face backend; add_bos=False omits BOS. A text longer than
the context loses its beginning, as in that backend. The adapter itself needs no torch, but lm_eval
imports it.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model


def yes(value):
    return value is True or str(value).lower() in ("1", "true", "yes")


@register_model("skald")
class SkaldLM(LM):
    def __init__(self, pretrained, program="skald", exact=False, add_bos=True, device="auto", threads=0,
                 batch_size=None, max_batch_size=None, **_):
        super().__init__()
        self.model, self.program, self.add_bos = pretrained, program, yes(add_bos)
        # lm_eval has names for devices that skald does not have; skald then chooses the device.
        device = device if str(device).startswith(("cpu", "cuda")) else "auto"
        self.common = ["-t", str(threads), "--device", device] + (["--exact"] if yes(exact) else [])

    def _run(self, command, *arguments):
        done = subprocess.run([self.program, command, "-m", self.model, *self.common, *arguments],
                              stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise RuntimeError(f"skald {command} ended with exit code {done.returncode}")
        return done.stdout

    def loglikelihood(self, requests, disable_tqdm=False):
        with tempfile.TemporaryDirectory() as folder:
            lines, results = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
            with open(lines, "w", encoding="utf-8") as file:
                for number, request in enumerate(requests):
                    context, continuation = request.args
                    file.write(json.dumps({"id": number, "context": context, "continuation": continuation}))
                    file.write("\n")
            self._run("score", "-i", str(lines), "-o", str(results), "--on-overflow", "truncate-left",
                      *([] if self.add_bos else ["--no-bos"]))
            with open(results, encoding="utf-8") as file:
                scores = {line["id"]: line for line in map(json.loads, file)}
        return [(scores[i]["logprob"], scores[i]["greedy"]) for i in range(len(requests))]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        texts = [request.args[0] for request in requests]
        with tempfile.TemporaryDirectory() as folder:
            documents, chunks = Path(folder, "docs.jsonl"), Path(folder, "chunks.jsonl")
            with open(documents, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(text) + "\n" for text in texts)
            self._run("perplexity", "-f", str(documents), "--protocol", "doc", "--jsonl", str(chunks))
            with open(chunks, encoding="utf-8") as file:
                next(file)  # the heading
                return [-json.loads(line)["nll"] for line in file]

    def generate_until(self, requests, disable_tqdm=False):
        raise NotImplementedError("this adapter scores texts; for tasks that generate them use skald batch")


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    sys.exit(cli_evaluate())
