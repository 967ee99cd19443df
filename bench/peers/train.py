"""The one training program of bench/peers.py: a GPT on a CPU, the same steps whichever system joins the regions.

    SYSTEM=causeway|ddp|diloco|local_sgd SIZE=small|medium|full STEPS=N K=N python3 train.py LOG_PREFIX

The log's first line is the number of parameters, and each other one a step: `at_s`, seconds since this region had joined the others;
`cpu_s`, seconds of this thread on a CPU since then; `loss`, of the step. Before every K-th step, and at the end, the loss on data that no
region trains on is added (`held_out`). The time that this takes is in `at_s`, for every system alike.
"""
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DIGITS, LENGTH, BATCH = 10, 24, 32
HELD_OUT = 10**9
SIZES = {"small": (64, 2), "medium": (128, 4), "full": (384, 6)}  # width, layers
STEPS, K = int(os.environ["STEPS"]), int(os.environ["K"])


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.places = nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, DIGITS)

    def forward(self, digits):
        length = digits.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.layers(self.digits(digits) + self.places(torch.arange(length)), mask=mask, is_causal=True))


def batch(number):
    """Sequences in which each digit depends on the two before it; the same for the same number."""
    chance = torch.Generator().manual_seed(number)
    digits = list(torch.randint(0, DIGITS, (2, BATCH), generator=chance))
    while len(digits) < LENGTH + 1:
        digits.append((digits[-1] + 3 * digits[-2] + 1) % DIGITS)
    return torch.stack(digits, 1)


def loss_of(model, number):
    sequences = batch(number)
    return F.cross_entropy(model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())


def train(model, optimizer, number):
    loss = loss_of(model, number)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


class Log:
    def __init__(self, path, model):
        self.model, self.file = model, open(path, "w")
        self.write(parameters=sum(each.numel() for each in model.parameters()))

    def write(self, **line):
        print(json.dumps(line), file=self.file, flush=True)

    def joined(self):
        self.began, self.began_cpu = time.monotonic(), time.thread_time()

    def step(self, **line):
        self.write(at_s=time.monotonic() - self.began, cpu_s=time.thread_time() - self.began_cpu, **line)

    def held_out(self, step):
        if step % K == 0:
            with torch.no_grad():
                self.step(step=step, held_out=loss_of(self.model, HELD_OUT).item())


def rank_and_ranks():
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def by_ddp(model, optimizer, log):
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank, ranks = rank_and_ranks()
    wrapped = nn.parallel.DistributedDataParallel(model)
    log.joined()
    for step in range(STEPS):
        log.held_out(step)
        log.step(step=step, loss=train(wrapped, optimizer, step * ranks + rank))
    log.held_out(STEPS)
    dist.barrier()  # rank 0 keeps the store that the others still use
    dist.destroy_process_group()


def by_causeway(model, optimizer, log):
    from causeway.torch import Run
    with Run(model, optimizer, samples_per_step=BATCH, tokens_per_step=BATCH * LENGTH) as run:
        log.joined()
        for number, step in enumerate(run):
            log.held_out(number)
            loss = train(model, optimizer, step.sample // BATCH * step.parts + step.part)
            run.report(loss)
            log.step(step=number, loss=loss)
        log.held_out(STEPS)  # the last record is applied


def torchft_manager(rank, ranks):
    from datetime import timedelta

    import torch.distributed as dist
    from torchft import Manager, ProcessGroupGloo
    store = dist.TCPStore(os.environ["OWN_ADDR"], 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=60)), min_replica_size=ranks, use_async_quorum=False, load_state_dict=None,
        state_dict=None, rank=0, world_size=1, store_addr=os.environ["OWN_ADDR"], store_port=store.port, replica_id=f"region{rank}",
        hostname=os.environ["OWN_ADDR"], lighthouse_addr=os.environ["TORCHFT_LIGHTHOUSE"],
        init_sync=False)  # all begin with the same model, and fetching it was refused between namespaces
    return manager, store


def torchft_way(model, optimizer, manager):
    from torchft.local_sgd import DiLoCo, LocalSGD
    if os.environ["SYSTEM"] == "local_sgd":
        return LocalSGD(manager, model, optimizer, sync_every=K)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    return DiLoCo(manager, [model], optimizer, outer, sync_every=K, pin_memory=False)


def by_torchft(model, optimizer, log):
    rank, ranks = rank_and_ranks()
    manager, store = torchft_manager(rank, ranks)
    with torchft_way(model, optimizer, manager):
        log.joined()
        for step in range(STEPS):
            log.held_out(step)
            log.step(step=step, loss=train(model, optimizer, step * ranks + rank))
        log.held_out(STEPS)
    if manager.current_step() != STEPS // K:
        raise SystemExit(f"torchft committed {manager.current_step()} of {STEPS // K} rounds")
    manager.shutdown()
    del store


def main():
    torch.manual_seed(1)  # all regions begin with the same model
    torch.set_num_threads(1)
    model = Model(*SIZES[os.environ["SIZE"]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    system = {"ddp": by_ddp, "causeway": by_causeway, "diloco": by_torchft, "local_sgd": by_torchft}[os.environ["SYSTEM"]]
    name = os.environ.get("CAUSEWAY_REGION") or os.environ["RANK"]
    system(model, optimizer, Log(f"{sys.argv[1]}{name}.jsonl", model))


if __name__ == "__main__":
    main()
