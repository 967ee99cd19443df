#!/usr/bin/env python3
"""The peer of bench_train_step_gpu: one training step of GPT-2 124M by PyTorch on the same GPU, as its users would
write it: torch.compile, scaled_dot_product_attention, bf16 autocast, fused AdamW, clipping.

  train_step_torch.py [--batch N] [--steps N]
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, PADDED, CONTEXT, LAYERS, WIDTH, HEADS = 50257, 50304, 1024, 12, 768, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = [part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                 for part in self.qkv(self.norm_1(x)).split(WIDTH, dim=2)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(PADDED, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, PADDED, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt2().cuda()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)
    step = torch.compile(model)
    tokens = torch.randint(VOCABULARY, (arguments.batch, CONTEXT), device="cuda")
    targets = torch.randint(VOCABULARY, (arguments.batch, CONTEXT), device="cuda")
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
    count = arguments.batch * CONTEXT
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, GPT-2 124M, bf16, B={arguments.batch}, T={CONTEXT}")
    print(f"  step          {1e3 * median:9.2f} ms   ({1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f})")
    print(f"  tokens/s      {count / median:9.0f}")


main()
