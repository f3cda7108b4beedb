"""Make the demo model from scratch: stories, tokenizer, weights, model folder and checks.

    python3 scripts/demo/build.py --out models/demo --tests tests/data --work /tmp/skald-demo
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import numpy as np
import torch

import check
import corpus
import tokens
from export import export, load
from model import Config
from train import train

GREEDY_PROMPTS = ("Once upon a time", "One morning", "Lily had a", "The old fox")


def write_test_data(folder, stories, model_folder):
    """Write the held-out text and the numbers that other implementations must reproduce."""
    text = "\n\n".join(stories) + "\n"
    (folder / "demo_heldout.txt").write_text(text)
    model, tokenizer = load(model_folder), check.load_tokenizer(model_folder)
    windows = check.windows_of(tokenizer, text)
    window_nll, window_tokens = check.mean_nll(model, windows)
    exact_nll, _ = check.mean_nll(model.double(), windows)
    model = model.float()
    story_nll, story_tokens = check.mean_nll(
        model, [[tokens.BOS, *tokenizer.encode(s), tokens.EOS] for s in stories])
    values = {
        "file": "demo_heldout.txt",
        "protocol": "Encode the whole file as one text, without BOS or EOS. Cut the ids into pieces of 255 "
                    "(the last one may be shorter). Each window is BOS (id 1) and one piece, run on its own "
                    "from position 0. Every id of the piece is scored. mean_nll is the sum of -ln p over all "
                    "scored ids divided by their number, with float32 arithmetic on the stored float16 "
                    "weights; mean_nll_float64 is the same with float64 arithmetic.",
        "window": 256, "windows": len(windows), "tokens_scored": window_tokens, "mean_nll": window_nll,
        "mean_nll_float64": exact_nll, "perplexity": float(torch.tensor(exact_nll).exp()),
        "first_window_ids": windows[0],
        "per_story": {
            "protocol": "Split the file at blank lines. Each story is run on its own as BOS, its ids and EOS; "
                        "all ids after BOS are scored, EOS too.",
            "stories": len(stories), "tokens_scored": story_tokens, "mean_nll": story_nll,
            "perplexity": float(torch.tensor(story_nll).exp())},
        "greedy": [check.greedy(model, tokenizer, p, 48) for p in GREEDY_PROMPTS]}
    (folder / "demo_heldout.json").write_text(json.dumps(values, indent=1) + "\n")
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model folder to write")
    parser.add_argument("--tests", type=pathlib.Path, help="folder for the held-out file and its numbers")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/skald-demo"))
    parser.add_argument("--report", type=pathlib.Path, help="where to write samples and measurements")
    parser.add_argument("--stories", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=7000)
    parser.add_argument("--batch", type=int, default=256, help="windows of 512 tokens per step")
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--samples", type=int, default=400)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    workers = os.cpu_count()
    config = Config()
    log = {"stories": args.stories, "steps": args.steps, "batch": args.batch}

    start = time.time()
    shards, seen = corpus.write_corpus(args.work / "corpus", args.stories, workers)
    held_out = corpus.held_out(2000, seen)
    print(f"corpus: {time.time() - start:.0f} s", flush=True)
    tokens.train_tokenizer(shards[:5], args.work / "tokenizer", config.vocab_size, workers)
    model_file = args.work / "tokenizer.model"
    print(f"tokenizer: {time.time() - start:.0f} s", flush=True)
    ids, words = tokens.encode_shards(shards, model_file, workers)
    running = len(shards) // 25
    length = config.max_position_embeddings + 1
    windows = np.concatenate((
        tokens.pack(ids[running * corpus.SHARD:], length), tokens.running_text(shards[:running], model_file, length)))
    log["distinct_stories"], log["tokens"] = len(seen), sum(map(len, ids))
    log["words"], log["windows"] = sum(map(len, words)), len(windows)
    log["windows_filled"] = float((windows >= 0).mean())
    del ids
    print(f"packed: {time.time() - start:.0f} s {log}", flush=True)

    model, log["training_seconds"] = train(config, windows, args.steps, args.batch, args.rate, device)
    log["parameters"] = sum(p.numel() for p in model.parameters())
    log["epochs"] = args.steps * args.batch / len(windows)
    export(model, model_file, args.out)

    model, tokenizer = load(args.out, device), check.load_tokenizer(args.out)
    rows = [[tokens.BOS, *tokenizer.encode(s), tokens.EOS] for s in held_out]
    log["held_out_2000_nll"], log["held_out_2000_tokens"] = check.mean_nll(model, rows)
    if args.tests:
        values = write_test_data(args.tests, held_out[:42], args.out)
        log["windows_perplexity"] = values["perplexity"]
        log["per_story_perplexity"] = values["per_story"]["perplexity"]
    texts, ended = check.sample(model, tokenizer, ["Once upon a time"] * args.samples, seed=1)
    log["distinct_samples"], log["samples_ended"] = len(set(texts)), sum(ended) / len(ended)
    various, various_ended = check.sample(model, tokenizer, check.PROMPTS * 4, seed=2)
    sizes = (5, 8, 12, 16, 20, 25, 30, 40, 50, 75, 100, 150)
    for name, group in (("samples", texts), ("held_out", held_out[:args.samples])):
        shares, longest = check.shared_grams(words, group, sizes, device)
        log[f"shared_grams_{name}"] = {n: round(v, 4) for n, v in shares.items()}
        log[f"longest_shared_{name}"] = {
            "median": int(sorted(longest)[len(longest) // 2]), "p90": int(sorted(longest)[len(longest) * 9 // 10]),
            "max": int(longest.max())}
    log["total_seconds"] = time.time() - start
    print(json.dumps(log, indent=1), flush=True)
    if args.report:
        args.report.write_text(json.dumps(log, indent=1) + "\n\n" + "\n\n---\n".join(
            f"[ended: {e}] {t}" for t, e in zip(various + texts[:60], various_ended + ended[:60])) + "\n")


if __name__ == "__main__":
    main()
