"""A PyTorch program that trains as one region of a run of Causeway.

A small transformer learns to continue sequences of digits in which each depends on the two before it. Nothing here but
the lines marked with # <- is about Causeway. To try it in three regions on this machine:

    causeway init --trainer pytorch
    causeway simulate causeway.toml --worker 'python examples/pytorch/train.py'

or, with two processes in each region, --worker 'torchrun --standalone --nproc-per-node 2 examples/pytorch/train.py'.
"""
import hashlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from causeway.torch import Run, Step  # <-

DIGITS, LENGTH, BATCH = 10, 24, 32


class Model(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, DIGITS)

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        length = digits.shape[1]
        hidden = self.digits(digits) + self.places(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        logits: torch.Tensor = self.head(self.layer(hidden, src_mask=mask, is_causal=True))
        return logits


def sequence(number: int) -> torch.Tensor:
    """Sequence `number` of all that there are: the same wherever it is asked for."""
    chance = torch.Generator().manual_seed(number)
    digits = torch.randint(0, DIGITS, (2,), generator=chance).tolist()
    while len(digits) < LENGTH + 1:
        digits.append((digits[-1] + 3 * digits[-2] + 1) % DIGITS)
    return torch.tensor(digits)


def batch(step: Step, rank: int, ranks: int) -> torch.Tensor:
    """This rank's share of the step's samples, all of them from this region's part of the data."""
    mine = range(step.sample + rank, step.sample + BATCH, ranks)
    return torch.stack([sequence(number * step.parts + step.part) for number in mine])


def digest(model: nn.Module) -> str:
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(values).hexdigest()[:12]


def main() -> None:
    torch.manual_seed(1)  # all regions begin with the same model
    torch.set_num_threads(1)
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    model: nn.Module = Model()
    if ranks > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = torch.tensor(float("nan"))  # unless there is a step left to take
    with Run(model, optimizer, samples_per_step=BATCH, tokens_per_step=BATCH * LENGTH) as run:  # <-
        for step in run:  # <-
            sequences = batch(step, rank, ranks)
            loss = F.cross_entropy(model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss)  # <-
    if rank == 0:
        print(f"ends with loss {loss.item():.4f}, parameters {digest(model)}", flush=True)
    if ranks > 1:
        dist.destroy_process_group()
        os._exit(0)  # with Gloo, a Python that ends by itself may abort (docs/python.md, "Gloo at the end")


if __name__ == "__main__":
    main()
