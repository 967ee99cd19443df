#!/usr/bin/env python3
"""Makes model_golden.h: loss, gradients and a few AdamW steps of both model families, in double precision.

Written from the papers with PyTorch's autograd; it shares nothing with the C++ code but tensor names and the formula for
weights and tokens. Needs PyTorch (Debian: python3-torch). The tests need only the header, which is committed:

    /usr/bin/python3 make_model_golden.py > model_golden.h
"""
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

STEPS = 5
LR, BETAS, EPSILON, WEIGHT_DECAY = 1e-2, (0.9, 0.95), 1e-8, 0.1
SAMPLES = 4
BATCH, LENGTH = 2, 37

GPT2 = dict(family="gpt2", vocabulary=29, context=40, layers=2, width=24, heads=3, kv_heads=3, hidden=40,
            rope_theta=10000.0, norm_epsilon=1e-5)
LLAMA = dict(family="llama", vocabulary=31, context=41, layers=2, width=24, heads=4, kv_heads=2, hidden=36,
             rope_theta=500.0, norm_epsilon=1e-6)


def gpt2_shapes(o):
    c = o["width"]
    shapes = {"transformer.wte.weight": (o["vocabulary"], c), "transformer.wpe.weight": (o["context"], c)}
    for layer in range(o["layers"]):
        p = f"transformer.h.{layer}."
        shapes |= {p + "ln_1.weight": (c,), p + "ln_1.bias": (c,),
                   p + "attn.c_attn.weight": (3 * c, c), p + "attn.c_attn.bias": (3 * c,),
                   p + "attn.c_proj.weight": (c, c), p + "attn.c_proj.bias": (c,),
                   p + "ln_2.weight": (c,), p + "ln_2.bias": (c,),
                   p + "mlp.c_fc.weight": (o["hidden"], c), p + "mlp.c_fc.bias": (o["hidden"],),
                   p + "mlp.c_proj.weight": (c, o["hidden"]), p + "mlp.c_proj.bias": (c,)}
    return shapes | {"transformer.ln_f.weight": (c,), "transformer.ln_f.bias": (c,)}


def llama_shapes(o):
    c = o["width"]
    kv = c // o["heads"] * o["kv_heads"]
    shapes = {"model.embed_tokens.weight": (o["vocabulary"], c)}
    for layer in range(o["layers"]):
        p = f"model.layers.{layer}."
        shapes |= {p + "input_layernorm.weight": (c,),
                   p + "self_attn.q_proj.weight": (c, c), p + "self_attn.k_proj.weight": (kv, c),
                   p + "self_attn.v_proj.weight": (kv, c), p + "self_attn.o_proj.weight": (c, c),
                   p + "post_attention_layernorm.weight": (c,),
                   p + "mlp.gate_proj.weight": (o["hidden"], c), p + "mlp.up_proj.weight": (o["hidden"], c),
                   p + "mlp.down_proj.weight": (c, o["hidden"])}
    return shapes | {"model.norm.weight": (c,), "lm_head.weight": (o["vocabulary"], c)}


def is_norm_weight(name):
    return name.endswith(".weight") and ("ln_" in name or "norm" in name)


def make_params(shapes):
    """0.2 sin(0.37 i + 0.0113 i^2 + t) for element i of tensor t, plus one for the weights of norms; held as float32."""
    params = {}
    for t, (name, shape) in enumerate(shapes.items()):
        i = torch.arange(math.prod(shape), dtype=torch.float64)
        values = 0.2 * torch.sin(0.37 * i + 0.0113 * i * i + t) + (1.0 if is_norm_weight(name) else 0.0)
        params[name] = values.float().double().reshape(shape).requires_grad_()
    return params


def make_tokens(o, step):
    i = torch.arange(BATCH * (LENGTH + 1)).reshape(BATCH, LENGTH + 1)
    sequence = (i * i + 3 * i + 5 * step) % o["vocabulary"]
    return sequence[:, :-1], sequence[:, 1:]


def attend(q, k, v):
    """(batch, heads, length, size) each, with as many key as query heads."""
    length = q.shape[2]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    return torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v


def heads_of(x, heads):
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def gpt2_logits(o, w, tokens):
    def linear(name, x):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(name, x):
        return F.layer_norm(x, (o["width"],), w[name + ".weight"], w[name + ".bias"], o["norm_epsilon"])

    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:tokens.shape[1]]
    for layer in range(o["layers"]):
        p = f"transformer.h.{layer}."
        q, k, v = linear(p + "attn.c_attn", norm(p + "ln_1", x)).split(o["width"], dim=-1)
        mixed = attend(*(heads_of(part, o["heads"]) for part in (q, k, v)))
        x = x + linear(p + "attn.c_proj", merge_heads(mixed))
        h = linear(p + "mlp.c_fc", norm(p + "ln_2", x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h ** 3)))
        x = x + linear(p + "mlp.c_proj", h)
    return norm("transformer.ln_f", x) @ w["transformer.wte.weight"].T


def rotate(o, x):
    """Hugging Face's convention: element i is paired with i + size / 2."""
    half = x.shape[-1] // 2
    frequency = o["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * frequency
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), dim=-1)


def llama_logits(o, w, tokens):
    def norm(name, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + o["norm_epsilon"]) * w[name + ".weight"]

    x = w["model.embed_tokens.weight"][tokens]
    group = o["heads"] // o["kv_heads"]
    for layer in range(o["layers"]):
        p = f"model.layers.{layer}."
        h = norm(p + "input_layernorm", x)
        q = heads_of(h @ w[p + "self_attn.q_proj.weight"].T, o["heads"])
        k = heads_of(h @ w[p + "self_attn.k_proj.weight"].T, o["kv_heads"])
        v = heads_of(h @ w[p + "self_attn.v_proj.weight"].T, o["kv_heads"])
        mixed = attend(rotate(o, q), rotate(o, k).repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1))
        x = x + merge_heads(mixed) @ w[p + "self_attn.o_proj.weight"].T
        h = norm(p + "post_attention_layernorm", x)
        h = F.silu(h @ w[p + "mlp.gate_proj.weight"].T) * (h @ w[p + "mlp.up_proj.weight"].T)
        x = x + h @ w[p + "mlp.down_proj.weight"].T
    return norm("model.norm", x) @ w["lm_head.weight"].T


def loss_of(o, params, step):
    tokens, targets = make_tokens(o, step)
    logits = (gpt2_logits if o["family"] == "gpt2" else llama_logits)(o, params, tokens)
    return F.cross_entropy(logits.reshape(-1, o["vocabulary"]), targets.reshape(-1))


def gradient_line(name, gradient):
    """Norm, projection on sin(i + 1), and elements spread evenly: together they leave little room for a wrong element."""
    flat = gradient.reshape(-1)
    projection = (flat * torch.sin(torch.arange(flat.numel(), dtype=torch.float64) + 1)).sum()
    samples = [flat[i * (flat.numel() - 1) // (SAMPLES - 1)] for i in range(SAMPLES)]
    numbers = ", ".join(f"{float(x):.9g}" for x in samples)
    return f'    {{"{name}", {float(flat.norm()):.9g}, {float(projection):.9g}, {{{numbers}}}}},'


def adamw_losses(o, params):
    groups = [{"params": [p for p in params.values() if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
              {"params": [p for p in params.values() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPSILON)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(o, params, step)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses


def print_case(o, shapes):
    constant = "k" + o["family"].capitalize()
    params = make_params(shapes)
    loss = loss_of(o, params, 0)
    loss.backward()
    print(f"inline constexpr Gradient {constant}Gradients[] = {{")
    for name, value in params.items():
        print(gradient_line(name, value.grad))
    print("};")
    losses = ", ".join(f"{x:.9g}" for x in adamw_losses(o, make_params(shapes)))
    print(f"inline constexpr Case {constant} = {{")
    fields = ", ".join(f"{o[key]}" for key in ("vocabulary", "context", "layers", "width", "heads", "kv_heads", "hidden"))
    print(f"    {fields}, {o['rope_theta']}, {o['norm_epsilon']},")
    print(f"    {loss.item():.9g}, {constant}Gradients, {len(shapes)}, {{{losses}}}}};\n")


def main():
    print(f"// Made by make_model_golden.py with PyTorch {torch.__version__}\n#pragma once\n")
    print("#include <cstddef>\n#include <cstdint>\n\n// clang-format off\nnamespace model_golden {")
    print(f"inline constexpr std::int64_t kBatch = {BATCH}, kLength = {LENGTH};")
    print(f"inline constexpr int kSteps = {STEPS}, kSamples = {SAMPLES};")
    print(f"inline constexpr float kLr = {LR}F, kBeta1 = {BETAS[0]}F, kBeta2 = {BETAS[1]}F;")
    print(f"inline constexpr float kEpsilon = {EPSILON}F, kWeightDecay = {WEIGHT_DECAY}F;")
    print("// Of the first batch: norm, dot product with sin(i + 1), and elements i (count - 1) / (kSamples - 1).")
    print("struct Gradient {\n  const char* name;\n  double norm, projection, samples[kSamples];\n};")
    print("struct Case {\n  std::int64_t vocabulary, context, layers, width, heads, kv_heads, hidden;")
    print("  double rope_theta, norm_epsilon, loss;\n  const Gradient* gradients;\n  std::size_t gradient_count;")
    print("  double adamw_losses[kSteps];  // before each step\n};\n")
    print_case(GPT2, gpt2_shapes(GPT2))
    print_case(LLAMA, llama_shapes(LLAMA))
    print("}  // namespace model_golden")


if __name__ == "__main__":
    main()
