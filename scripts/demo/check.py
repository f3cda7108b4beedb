"""Measure a model folder: held-out perplexity, greedy continuations, samples, n-grams shared with the corpus."""

import numpy as np
import sentencepiece
import torch

from tokens import BOS, EOS, word_hashes

PROMPTS = ("Once upon a time", "One morning", "There was a", "Lily had a", "The old fox", "In a small village",
           "Deep in the forest", "The little girl", "It was a rainy day", "Tom and his grandmother")


def load_tokenizer(folder):
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


@torch.no_grad()
def sequence_nll(model, ids):
    """The sum of the negative log-likelihoods of ids[1:], and their number."""
    device = next(model.parameters()).device
    logits = model(torch.tensor([ids[:-1]], device=device))[0]
    logp = torch.log_softmax(logits, -1).double()
    return -logp[torch.arange(len(ids) - 1), ids[1:]].sum().item(), len(ids) - 1


def windows_of(tokenizer, text, length=256):
    """The ids of a whole text in disjoint windows, each after its own BOS."""
    ids = tokenizer.encode(text)
    return [[BOS, *ids[at:at + length - 1]] for at in range(0, len(ids), length - 1)]


def mean_nll(model, sequences):
    """The mean negative log-likelihood of the scored tokens of all sequences, and their number."""
    total, count = map(sum, zip(*(sequence_nll(model, ids) for ids in sequences)))
    return total / count, count


@torch.no_grad()
def greedy(model, tokenizer, prompt, steps):
    """The greedy continuation: ids, and the difference of the best and the second logit at each step."""
    device = next(model.parameters()).device
    prompt_ids = [BOS, *tokenizer.encode(prompt)]
    ids, margins = list(prompt_ids), []
    for _ in range(steps):
        best = model(torch.tensor([ids], device=device))[0, -1].topk(2)
        ids.append(best.indices[0].item())
        margins.append(round((best.values[0] - best.values[1]).item(), 4))
        if ids[-1] == EOS:
            break
    return {"prompt": prompt, "prompt_ids": prompt_ids, "ids": ids[len(prompt_ids):], "margins": margins,
            "text": tokenizer.decode(ids)}


@torch.no_grad()
def sample(model, tokenizer, prompts, seed, temperature=0.8, top_k=40, top_p=0.95, limit=500):
    """Sample a story for each prompt. Returns the texts, and for each whether it ended by itself."""
    device = next(model.parameters()).device
    random = torch.Generator(device).manual_seed(seed)
    rows = [[BOS, *tokenizer.encode(p)] for p in prompts]
    width = min(map(len, rows))
    ids = torch.tensor([row[:width] for row in rows], device=device)
    while ids.shape[1] < limit and not (ids == EOS).any(1).all():
        logits = model(ids)[:, -1].float() / temperature
        values, order = logits.topk(top_k)
        chances = values.softmax(-1)
        chances[chances.cumsum(-1) - chances > top_p] = 0
        pick = order.gather(1, torch.multinomial(chances, 1, generator=random))
        for i, row in enumerate(rows):
            if ids.shape[1] < len(row):
                pick[i] = row[ids.shape[1]]
        ids = torch.cat((ids, pick), 1)
    texts, ended = [], []
    for row in ids.tolist():
        end = row.index(EOS) if EOS in row else len(row)
        texts.append(tokenizer.decode(row[:end]))
        ended.append(EOS in row)
    return texts, ended


def _grams(rows, n, device):
    """A hash for every sequence of n words within a row, and the row of each."""
    flat = torch.from_numpy(np.concatenate(rows)).to(device)
    row = torch.repeat_interleave(
        torch.arange(len(rows), device=device), torch.tensor([len(r) for r in rows], device=device))
    if len(flat) < n:
        return flat[:0], row[:0]
    count = len(flat) - n + 1
    value = torch.zeros(count, dtype=torch.int64, device=device)
    for i in range(n):  # overflow at 64 bits is intended
        value = value * 6364136223846793005 + (flat[i:i + count] + 1442695040888963407)
    inside = row[:count] == row[n - 1:]
    return value[inside], row[:count][inside]


def shared_grams(corpus_words, texts, sizes, device):
    """For each n, the share of the texts' n-grams that occur in the corpus; for each text, the largest such n."""
    rows = [word_hashes(t) for t in texts]
    longest = np.zeros(len(texts), dtype=int)
    shares = {}
    for n in sizes:
        known = torch.sort(_grams(corpus_words, n, device)[0]).values
        grams, owner = _grams(rows, n, device)
        at = torch.searchsorted(known, grams).clamp(max=len(known) - 1)
        hit = known[at] == grams
        shares[n] = hit.float().mean().item() if len(hit) else 0.0
        longest[owner[hit].unique().cpu().numpy()] = n
        del known
    return shares, longest
