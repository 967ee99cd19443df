"""A training step of a GPT-2 on the CPU beside PyTorch's, eager and compiled, in one run and in turn.

    build-python/bin/python bench/step_peers.py BENCH_TRAIN_STEP [--shape quickstart] [--turns 3]

Steps with AdamW and without clipping, on all cores. PyTorch's are as its users would write them: scaled_dot_product_attention, bf16 by
autocast, fused AdamW. Of each the median step of a turn counts, and of the turns the middle one.
"""
import argparse
import re
import statistics
import subprocess
import time

import torch

from train_step_torch import GPT2_124M, Gpt2, Shape, adamw

# Batch and length, steps of a turn, as bench_train_step has them.
SHAPES = {"124m": (GPT2_124M, (4, 64), 5), "quickstart": (Shape(vocabulary=256, context=64, layers=4, width=144, heads=4), (8, 64), 100)}
PRECISIONS = ("fp32", "bf16")


def ours(program, shape, steps):
    """{precision: ms of a step}."""
    told = subprocess.run([program, shape, "--repeats", f"{steps}", "--no-reference"], check=True, capture_output=True, text=True).stdout
    return dict(zip(PRECISIONS, map(float, re.findall(r"^  step with AdamW +([\d.]+) ms", told, re.M)), strict=True))


class Peer:
    """PyTorch's step."""

    def __init__(self, shape, size):
        self.model = Gpt2(shape)
        self.optimizer = adamw(self.model)
        self.tokens, self.targets = torch.randint(256, size), torch.randint(256, size)
        self.forward = {"eager": self.model, "compiled": torch.compile(self.model)}

    def step(self, kind, precision):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = self.forward[kind](self.tokens, self.targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step_ms(self, kind, precision, steps):
        seconds = []
        for i in range(2 + steps):  # the first one compiles, in the first turn
            began = time.perf_counter()
            self.step(kind, precision)
            if i >= 2:
                seconds.append(time.perf_counter() - began)
        return 1e3 * statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench_train_step")
    parser.add_argument("--shape", choices=SHAPES, default="quickstart")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    torch.manual_seed(1)
    shape, size, steps = SHAPES[given.shape]
    peer = Peer(shape, size)
    measured = {(name, precision): [] for precision in PRECISIONS for name in ("ours", "eager", "compiled")}
    for _ in range(given.turns):
        for precision, step_ms in ours(given.bench_train_step, given.shape, steps).items():
            measured["ours", precision].append(step_ms)
        for kind in peer.forward:
            for precision in PRECISIONS:
                measured[kind, precision].append(peer.step_ms(kind, precision, steps))
    print(f"{given.shape}, B={size[0]}, T={size[1]}, PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    step_ms = {name: statistics.median(turns) for name, turns in measured.items()}
    for (name, precision), turns in measured.items():
        print(f"  {precision} {name:10} {step_ms[name, precision]:9.2f} ms   ({min(turns):.2f} to {max(turns):.2f})")
    for precision in PRECISIONS:
        best = min(step_ms["eager", precision], step_ms["compiled", precision])
        print(f"  {precision}: {best / step_ms['ours', precision]:.2f} times the better one of PyTorch's")


if __name__ == "__main__":
    main()
