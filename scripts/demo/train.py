"""Train the weights on packed windows."""

import math
import time

import torch
from torch.nn import functional

from model import Llama


def _schedule(step, steps, warmup=200, floor=0.02):
    """The learning rate: a linear warm-up, then a cosine down to a small part of the full rate."""
    if step < warmup:
        return (step + 1) / warmup
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def _loss(model, batch):
    batch = batch.long()
    targets = batch[:, 1:]
    logits = model(batch[:, :-1].clamp(min=0)).float()
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def train(config, windows, steps, batch_size, rate, device, seed=1, held_out=None):
    """Muon for the matrices inside the layers, AdamW for the embedding and the norms."""
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    model = Llama(config).to(device)
    matrices = [p for p in model.layers.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim == 1] + [model.embed_tokens.weight]
    optimizers = (
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0, fused=device == "cuda"))
    loss_of = torch.compile(_loss) if device == "cuda" else _loss
    data = torch.from_numpy(windows).to(device)
    order = torch.randperm(len(data), device=device)
    started, tokens = time.time(), int((windows >= 0).sum() / len(windows) * batch_size)
    for step in range(steps):
        at = step * batch_size % (len(data) - batch_size)
        if step and at < batch_size:
            order = torch.randperm(len(data), device=device)
        batch = data[order[at:at + batch_size]]
        with torch.autocast(device, torch.bfloat16):
            loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * _schedule(step, steps)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if step % 250 == 0 or step == steps - 1:
            seconds = time.time() - started
            print(f"step {step:6d}  loss {loss.item():.4f}  {seconds:6.1f} s  "
                  f"{tokens * (step + 1) / seconds / 1e6:.2f} M tokens/s", flush=True)
    if held_out is not None:
        with torch.no_grad():
            loss = _loss(model, torch.from_numpy(held_out).to(device))
        print(f"held-out loss {loss.item():.4f}", flush=True)
    return model, time.time() - started
