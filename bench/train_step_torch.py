#!/usr/bin/env python3
"""The peer of bench_train_step_gpu: one training step of GPT-2 124M by PyTorch on the same GPU, as its users would
write it: torch.compile, scaled_dot_product_attention, bf16 autocast, fused AdamW, clipping.

  train_step_torch.py [--batch N] [--steps N]
"""

import argparse
import statistics
import time
import typing

import torch
from torch import nn
from torch.nn import functional


class Shape(typing.NamedTuple):
    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int


GPT2_124M = Shape(vocabulary=50304, context=1024, layers=12, width=768, heads=12)  # GPT-2's 50,257 words, filled up to a multiple of 64


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = [part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                 for part in self.qkv(self.norm_1(x)).split(width, dim=2)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(shape.vocabulary, shape.width), nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def adamw(model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}],
                             lr=1e-4, betas=(0.9, 0.95), fused=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt2(GPT2_124M).cuda()
    optimizer = adamw(model)
    step = torch.compile(model)
    size = (arguments.batch, GPT2_124M.context)
    tokens = torch.randint(50257, size, device="cuda")
    targets = torch.randint(50257, size, device="cuda")
    seconds = []
    for i in range(20 + arguments.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = step(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if i >= 20:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    count = tokens.numel()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, GPT-2 124M, bf16, B={arguments.batch}, T={GPT2_124M.context}")
    print(f"  step          {1e3 * median:9.2f} ms   ({1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f})")
    print(f"  tokens/s      {count / median:9.0f}")


if __name__ == "__main__":
    main()
