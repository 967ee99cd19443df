#!/usr/bin/env python3
"""Makes adamw_golden.h: ten steps of PyTorch's AdamW in double precision.

Needs PyTorch (Debian: python3-torch). The tests need only the header, which is committed:

    /usr/bin/python3 make_adamw_golden.py > adamw_golden.h
"""
import torch

STEPS = 10
MATRIX = (5, 7)   # decays
VECTOR = (6,)     # does not
LR = 3e-3
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.1


def as_float32(tensor):
    """Inputs that the C++ side can hold exactly."""
    return tensor.float().double()


def array(name, values):
    numbers = [f"{float(value):.9g}" for value in values]
    lines = [", ".join(numbers[i:i + 5]) for i in range(0, len(numbers), 5)]
    return f"inline constexpr double {name}[] = {{\n    " + ",\n    ".join(lines) + "};"


def main():
    torch.manual_seed(20240607)
    matrix = torch.nn.Parameter(as_float32(torch.randn(MATRIX)))
    vector = torch.nn.Parameter(as_float32(torch.randn(VECTOR)))
    start = torch.cat([matrix.detach().flatten(), vector.detach()])
    optimizer = torch.optim.AdamW([{"params": [matrix], "weight_decay": WEIGHT_DECAY},
                                   {"params": [vector], "weight_decay": 0.0}],
                                  lr=LR, betas=BETAS, eps=EPSILON)
    gradients = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = LR * (step + 1) / STEPS
        # From large to tiny, so that epsilon matters too.
        for parameter in (matrix, vector):
            parameter.grad = as_float32(torch.randn(parameter.shape) * 10.0 ** (-step))
        gradients.append(torch.cat([matrix.grad.flatten(), vector.grad]))
        optimizer.step()

    def moment(name):
        return torch.cat([optimizer.state[p][name].flatten() for p in (matrix, vector)])

    print("// Made by make_adamw_golden.py with PyTorch", torch.__version__.split("+")[0])
    print("#pragma once\n\n// clang-format off\nnamespace adamw_golden {")
    print(f"inline constexpr int kSteps = {STEPS};")
    print(f"inline constexpr int kMatrix[] = {{{MATRIX[0]}, {MATRIX[1]}}};")
    print(f"inline constexpr int kVector = {VECTOR[0]};")
    print(f"inline constexpr double kLr = {LR};  // of the last step; step s has (s + 1) / kSteps of it")
    print(f"inline constexpr double kBeta1 = {BETAS[0]}, kBeta2 = {BETAS[1]};")
    print(f"inline constexpr double kEpsilon = {EPSILON}, kWeightDecay = {WEIGHT_DECAY};")
    print("// The matrix, row-major, then the vector; gradients step by step.")
    for name, values in (("kStart", start), ("kGradients", torch.cat(gradients)),
                         ("kParams", torch.cat([matrix.detach().flatten(), vector.detach()])),
                         ("kFirstMoment", moment("exp_avg")),
                         ("kSecondMoment", moment("exp_avg_sq"))):
        print(array(name, values))
    print("}  // namespace adamw_golden\n// clang-format on")


if __name__ == "__main__":
    main()
