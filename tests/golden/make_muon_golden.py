#!/usr/bin/env python3
"""Makes muon_golden.h: three steps of Muon in double precision, by NumPy, written from the equations of docs/learning.md.

    python3 make_muon_golden.py > muon_golden.h
    python3 make_muon_golden.py --torch        how near one step is to torch.optim.Muon's (needs PyTorch 2.9 or later)
"""
import sys

import numpy as np

SHAPES = ((6, 10), (10, 6), (6, 10))  # wide, tall, and a second one of the first's shape
STEPS = 3
LR = 0.02
MOMENTUM = 0.9
WEIGHT_DECAY = 0.1
POLYNOMIALS = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
               (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012))


def orthogonal(matrix, polynomials=POLYNOMIALS):
    x = matrix / np.linalg.norm(matrix)
    if x.shape[0] > x.shape[1]:
        return orthogonal(matrix.T, polynomials).T
    for a, b, c in polynomials:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def step(weights, momentum, gradient, lr):
    momentum = MOMENTUM * momentum + gradient
    rate = lr * 0.2 * np.sqrt(max(weights.shape))
    return (1 - lr * WEIGHT_DECAY) * weights - rate * orthogonal(momentum), momentum


def array(name, values):
    numbers = [f"{float(value):.9g}" for value in np.concatenate([v.ravel() for v in values])]
    lines = [", ".join(numbers[i:i + 5]) for i in range(0, len(numbers), 5)]
    return f"inline constexpr double {name}[] = {{\n    " + ",\n    ".join(lines) + "};"


def draws():
    chance = np.random.default_rng(20261125)
    draw = [chance.standard_normal(shape).astype(np.float32).astype(np.float64) for _ in range(STEPS + 1)
            for shape in SHAPES]
    return draw[:len(SHAPES)], [draw[len(SHAPES) * (s + 1):len(SHAPES) * (s + 2)] for s in range(STEPS)]


def print_header():
    weights, gradients = draws()
    start, momenta = list(weights), [np.zeros(shape) for shape in SHAPES]
    for of_step in gradients:
        stepped = [step(w, m, g, LR) for w, m, g in zip(weights, momenta, of_step)]
        weights, momenta = [s[0] for s in stepped], [s[1] for s in stepped]
    print("// Made by make_muon_golden.py")
    print("#pragma once\n\n// clang-format off\nnamespace muon_golden {")
    print("inline constexpr long kShapes[][2] = {" + ", ".join(f"{{{out}, {into}}}" for out, into in SHAPES) + "};")
    print(f"inline constexpr int kSteps = {STEPS};")
    print(f"inline constexpr float kLr = {LR}F, kMomentum = {MOMENTUM}F, kWeightDecay = {WEIGHT_DECAY}F;")
    print("// One matrix after the other, row-major; gradients step by step.")
    for name, values in (("kStart", start), ("kGradients", [g for of_step in gradients for g in of_step]),
                         ("kParams", weights), ("kMomenta", momenta)):
        print(array(name, values))
    print("}  // namespace muon_golden\n// clang-format on")


def compare_with_torch():
    import torch
    for shape in ((128, 512), (512, 128), (256, 256)):
        gradient = np.random.default_rng(1).standard_normal(shape)
        parameter = torch.nn.Parameter(torch.zeros(shape))
        parameter.grad = torch.tensor(gradient, dtype=torch.float32)
        torch.optim.Muon([parameter], lr=1.0, weight_decay=0.0, momentum=0.0, nesterov=False,
                         adjust_lr_fn="match_rms_adamw").step()
        theirs = parameter.detach().double().numpy()
        ours = -0.2 * np.sqrt(max(shape)) * orthogonal(gradient)
        cosine = (theirs * ours).sum() / np.linalg.norm(theirs) / np.linalg.norm(ours)
        print(f"{shape}: cosine of the steps {cosine:.4f}, length {np.linalg.norm(ours) / np.linalg.norm(theirs):.3f} of theirs")


if __name__ == "__main__":
    compare_with_torch() if "--torch" in sys.argv else print_header()
