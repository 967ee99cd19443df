"""The network of examples/classifier/ in PyTorch: classifier.py DIRECTORY. Prints its parameters as that program does."""
import math
import sys

import torch

from causeway.torch import Run

MASK = (1 << 64) - 1


def uniform(key):
    """In [0, 1), as examples/classifier/ draws it (splitmix64)."""
    key = key + 0x9E3779B97F4A7C15 & MASK
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 & MASK
    key = (key ^ key >> 27) * 0x94D049BB133111EB & MASK
    return ((key ^ key >> 31) >> 40) * 2.0 ** -24


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(2, 64), torch.nn.Linear(64, 8)
        with torch.no_grad():
            self.hidden.weight.copy_(torch.tensor([2 * uniform(i) - 1 for i in range(128)]).view(64, 2))
            chance = torch.tensor([uniform(i) for i in range(192, 704)])
            self.out.weight.copy_((0.2 * chance - 0.1).view(8, 64))
            self.hidden.bias.zero_()
            self.out.bias.zero_()

    def forward(self, points):
        return self.out(torch.tanh(self.hidden(points)))


def batch(first_sample):
    chance = torch.Generator().manual_seed(first_sample)
    places = torch.randint(0, 8, (32,), generator=chance)
    angles = 2 * math.pi * places / 8
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    return points + 0.2 * torch.randn(32, 2, generator=chance), places


def fingerprint(model):
    value = 0xCBF29CE484222325
    for parameter in model.parameters():
        for byte in parameter.detach().numpy().tobytes():
            value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def main(directory):
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Run(model, optimizer, directory=directory, samples_per_step=32, tokens_per_step=32) as run:
        for step in run:
            points, places = batch(step.sample)
            loss = torch.nn.functional.cross_entropy(model(points), places)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss)
    print(f"ends with loss {loss:.4f}, parameters {fingerprint(model):016x}")


if __name__ == "__main__":
    main(*sys.argv[1:])
