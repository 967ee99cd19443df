"""What K steps apart cost a PyTorch program in loss, with AdamW and with torch.optim.Muon inside, at equal tokens.

    build-python/bin/python bench/muon_torch.py CAUSEWAY data/kjv.txt [--k 30] [--steps 600] [--seeds 1 2]

A GPT of two layers reads bytes of TEXT. "Every step" is PyTorch alone: one process takes the batches of both regions in each step. Each loss
is of the same 256 held-out sequences. CAUSEWAY is the program; the module is that of the Python that runs this.
"""
import argparse
import math
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

from causeway.torch import Run

REGIONS = ("here", "there")
BYTES, WIDTH, HEADS, CONTEXT, BATCH = 256, 64, 4, 64, 8
RATES = {"adamw": 4e-3, "muon": 8e-3}
CONFIG = """
[run]
name = "muon"
seed = {seed}
[train]
steps = {steps}
k = {k}
[outer]
optimizer = "nesterov"
lr = 0.7
momentum = 0.6
[codec]
matrix = "dense:int8,block=128"
feedback = false
[[regions]]
name = "here"
[[regions]]
name = "there"
"""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes, self.places = nn.Embedding(BYTES, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES)

    def loss(self, sequences):
        x = self.bytes(sequences[:, :-1]) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), sequences[:, 1:].flatten())


class Text:
    """Sequences of a text: the last twentieth of it is held out."""

    def __init__(self, path, seed):
        values = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8).long()
        self.trained, self.held_out = values.tensor_split([len(values) * 19 // 20])
        self.seed = seed

    def batch(self, samples):
        """(samples, CONTEXT + 1): the same for a sample's number wherever it is asked for."""
        chance = [torch.Generator().manual_seed(self.seed << 40 | sample) for sample in samples]
        begins = [torch.randint(len(self.trained) - CONTEXT, (), generator=one).item() for one in chance]
        return torch.stack([self.trained[begin:begin + CONTEXT + 1] for begin in begins])

    def held_out_loss(self, model):
        begins = range(0, len(self.held_out) - CONTEXT, (len(self.held_out) - CONTEXT) // 256)[:256]
        with torch.no_grad():
            return model.loss(torch.stack([self.held_out[begin:begin + CONTEXT + 1] for begin in begins])).item()


def optimizers_of(model, name):
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2] if name == "muon" else []
    inside = {id(p) for p in matrices}
    others = torch.optim.AdamW([p for p in model.parameters() if id(p) not in inside], lr=RATES["adamw"], betas=(0.9, 0.95), weight_decay=0.1)
    return [others] + ([torch.optim.Muon(matrices, lr=RATES["muon"], adjust_lr_fn="match_rms_adamw")] if matrices else [])


def take_step(model, optimizers, rates, progress, sequences):
    """One step at `progress` (0 to 1) of the run: 5 % of warm-up, then a cosine to a tenth of the rate."""
    share = min(1, progress / 0.05 + 0.01) * (0.55 + 0.45 * math.cos(math.pi * progress))
    for optimizer, rate in zip(optimizers, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        optimizer.zero_grad()
    loss = model.loss(sequences)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss


def train(given, name, seed):
    """What each process of a run does: the held-out loss at its end. Alone, it takes the batches of all regions."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, text = Gpt(), Text(given.text, seed)
    optimizers = optimizers_of(model, name)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    if not given.region:
        for step in range(given.steps):
            samples = range(step * BATCH * len(REGIONS), (step + 1) * BATCH * len(REGIONS))
            take_step(model, optimizers, rates, step / given.steps, text.batch(samples))
        return text.held_out_loss(model)
    with Run(model, optimizers, samples_per_step=BATCH) as run:
        for step in run:
            samples = (sample * step.parts + step.part for sample in range(step.sample, step.sample + BATCH))
            run.report(take_step(model, optimizers, rates, step.progress, text.batch(samples)))
    return text.held_out_loss(model)


def train_apart(given, name, seed):
    """The held-out loss of the model that both regions end with."""
    with tempfile.TemporaryDirectory() as scratch:
        config, out = pathlib.Path(scratch) / "muon.toml", pathlib.Path(scratch) / "run"
        config.write_text(CONFIG.format(seed=seed, steps=given.steps, k=given.k))
        worker = shlex.join([sys.executable, str(pathlib.Path(__file__).resolve()), given.causeway, str(pathlib.Path(given.text).resolve()),
                             "--region", name, "--seeds", str(seed)])
        subprocess.run([given.causeway, "simulate", config, "--wan", "none", "--out", out, "--worker", worker], check=True, stdout=subprocess.DEVNULL)
        losses = {re.search(r"held-out loss (\S+)", (out / f"regions/{region}/worker-0.log").read_text())[1] for region in REGIONS}
    [loss] = losses  # one model, so one loss
    return float(loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("text")
    parser.add_argument("--k", type=int, default=30)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--region", choices=RATES, help=argparse.SUPPRESS)  # this process is a region's worker
    given = parser.parse_args()
    if given.region:
        print(f"held-out loss {train(given, given.region, given.seeds[0]):.4f}", flush=True)
        return
    for name in RATES:
        alone = [train(given, name, seed) for seed in given.seeds]
        apart = [train_apart(given, name, seed) for seed in given.seeds]
        more = statistics.mean(apart) / statistics.mean(alone) - 1
        print(f"{name}: every step {', '.join(f'{loss:.3f}' for loss in alone)}; "
              f"K = {given.k} {', '.join(f'{loss:.3f}' for loss in apart)} ({more:+.1%})", flush=True)


if __name__ == "__main__":
    main()
