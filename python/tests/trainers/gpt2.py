"""A GPT-2 of Causeway's own in PyTorch, on the bytes of a text: gpt2.py DIRECTORY MODEL TEXT. MODEL is a model's directory."""
import json
import math
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

from causeway.torch import Run


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        parts = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))
        return self.c_proj(scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.wte, self.wpe = nn.Embedding(config["vocab_size"], width), nn.Embedding(config["n_positions"], width)
        self.h = nn.ModuleList(Block(width, config["n_head"]) for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


class Gpt2(nn.Module):
    def __init__(self, directory):
        super().__init__()
        self.transformer = Transformer(json.loads((directory / "config.json").read_text()))
        data = (directory / "model.safetensors").read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:begin])
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                first, last = header[name]["data_offsets"]
                values = torch.from_numpy(np.frombuffer(data[begin + first:begin + last], "<f4").copy())
                values = values.view(header[name]["shape"])
                linear = name.startswith("transformer.h.") and values.dim() == 2  # transposed in the file
                parameter.copy_(values.T if linear else values)


def main(directory, model, text, batch=6):
    torch.set_num_threads(1)
    network = Gpt2(pathlib.Path(model))
    context = network.transformer.wpe.num_embeddings
    text = torch.from_numpy(np.frombuffer(pathlib.Path(text).read_bytes(), np.uint8).astype(np.int64))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    with Run(network, optimizer, directory=directory, samples_per_step=batch, tokens_per_step=batch * context) as run:
        for step in run:
            starts = [(step.sample + i) * context % (len(text) - context - 1) for i in range(batch)]
            windows = torch.stack([text[start:start + context + 1] for start in starts])
            loss = cross_entropy(network.transformer(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss)
    print(f"ends with loss {loss:.4f}")
    assert math.isfinite(loss)


if __name__ == "__main__":
    main(*sys.argv[1:])
