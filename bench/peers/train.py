"""The one training program of bench/peers.py: a GPT on a CPU, the same steps whichever system joins the regions.

    SYSTEM=causeway|ddp|diloco|local_sgd|hivemind SIZE=small|medium|full STEPS=N K=N python3 train.py LOG_PREFIX

The log has one line when this region has joined the others (`parameters`) and one for each step (`loss`). Before every K-th step, and at
the end, the loss on data that no region trains on is added (`held_out`). Each line has `at_s`, seconds since 1970, and `cpu_s`, seconds of
the training thread on a CPU. The time that the logging takes counts, for every system alike. A region that is started again goes on with
its log.
"""
import json
import os
import pathlib
import socket
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
        self.model, self.file = model, open(path, "a")

    def write(self, **line):
        print(json.dumps(dict(at_s=time.time(), cpu_s=time.thread_time(), **line)), file=self.file, flush=True)

    def joined(self):
        self.write(parameters=sum(each.numel() for each in self.model.parameters()))

    def step(self, step, loss):
        self.write(step=step, loss=loss)

    def held_out(self, step):
        if step % K == 0:
            with torch.no_grad():
                self.write(step=step, held_out=loss_of(self.model, HELD_OUT).item())


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
        log.step(step, train(wrapped, optimizer, step * ranks + rank))
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
            log.step(number, loss)
        log.held_out(STEPS)  # the last record is applied


def torchft_manager(rank, ranks, state, load_state):
    from datetime import timedelta

    import torch.distributed as dist
    # It tells the others to fetch its state from this name, which has to lead to this region.
    socket.gethostname = lambda: os.environ["OWN_ADDR"]
    from torchft import Manager, ProcessGroupGloo
    store = dist.TCPStore(os.environ["OWN_ADDR"], 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=60)), min_replica_size=int(os.environ["MIN_REGIONS"]), use_async_quorum=False,
        load_state_dict=load_state, state_dict=state, rank=0, world_size=1, store_addr=os.environ["OWN_ADDR"], store_port=store.port,
        replica_id=f"region{rank}", hostname=os.environ["OWN_ADDR"], lighthouse_addr=os.environ["TORCHFT_LIGHTHOUSE"],
        init_sync=False)  # all begin with the same model
    return manager, store


def torchft_way(model, optimizer, manager):
    from torchft.local_sgd import DiLoCo, LocalSGD
    if os.environ["SYSTEM"] == "local_sgd":
        return LocalSGD(manager, model, optimizer, sync_every=K)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    return DiLoCo(manager, [model], optimizer, outer, sync_every=K, pin_memory=False, use_bucketization=True)


def by_torchft(model, optimizer, log):
    def state():
        return dict(model=model.state_dict(), optimizer=optimizer.state_dict())

    def load_state(saved):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])

    rank, ranks = rank_and_ranks()
    manager, store = torchft_manager(rank, ranks, state, load_state)
    step = 0
    with torchft_way(model, optimizer, manager):
        log.joined()
        while manager.current_step() < STEPS // K:  # rounds: one that a fault spoiled is made again
            log.held_out(step)
            log.step(step, train(model, optimizer, step * ranks + rank))
            step += 1
        log.held_out(STEPS)
    manager.shutdown()
    del store


def hivemind_peers(rank, log):
    """The overlay network of this region, which dials those of lower ranks: it finds no way to an address that it was not told."""
    import hivemind
    files = [pathlib.Path(log.file.name).with_name(f"hivemind-{each}") for each in range(rank + 1)]
    while not all(file.exists() for file in files[:rank]):
        time.sleep(0.1)
    dht = hivemind.DHT(initial_peers=[file.read_text() for file in files[:rank]], host_maddrs=[f"/ip4/{os.environ['OWN_ADDR']}/tcp/0"],
                       start=True)
    partial = files[rank].with_suffix(".partial")
    partial.write_text(str(dht.get_visible_maddrs()[0]))
    partial.rename(files[rank])
    return dht


def copy(sources, targets):
    for source, target in zip(sources, targets):
        target.copy_(source)


def hivemind_average(averager, parameters):
    """Averages the parameters over who is there, and says over how many regions."""
    import hivemind
    with averager.get_tensors() as averaged:
        copy(parameters, averaged)
    try:
        group = averager.step(timeout=120)
    except hivemind.averaging.partition.AllreduceException:  # found nobody
        return 0
    if group is not None:
        with averager.get_tensors() as averaged:
            copy(averaged, parameters)
    return len(group or ())


def by_hivemind(model, optimizer, log):
    """Parameters averaged every K steps, in 16 bits: what hivemind offers beside an optimizer of its own."""
    import hivemind
    rank, ranks = rank_and_ranks()
    parameters = [each.detach() for each in model.parameters()]
    averager = hivemind.averaging.DecentralizedAverager(
        averaged_tensors=[each.clone() for each in parameters], dht=hivemind_peers(rank, log), prefix="peers", target_group_size=ranks,
        min_group_size=2, min_matchmaking_time=15, compression=hivemind.compression.Float16Compression(), start=True)
    if log.file.tell() > 0 and (state := averager.load_state_from_peers(timeout=60)):  # this region was killed
        copy(state[1], parameters)
    log.joined()
    ended = pathlib.Path(log.file.name).with_name("ended")
    ended.mkdir(exist_ok=True)
    enough = int(os.environ["MIN_REGIONS"])
    for step in range(STEPS):
        log.held_out(step)
        log.step(step, train(model, optimizer, step * ranks + rank))
        if (step + 1) % K == 0 and (found := hivemind_average(averager, parameters)) < enough:
            if len(list(ended.iterdir())) == ranks - 1:
                break  # the others are done: this region was away
            if enough == ranks:
                raise SystemExit(f"hivemind averaged {found} regions")
    log.held_out(STEPS)
    (ended / str(rank)).touch()
    while len(list(ended.iterdir())) < ranks:  # the others still fetch from this region
        time.sleep(0.1)
    os._exit(0)  # its processes were seen to wait for each other for ever when they are to end


SYSTEMS = {"ddp": by_ddp, "causeway": by_causeway, "diloco": by_torchft, "local_sgd": by_torchft, "hivemind": by_hivemind}


def main():
    torch.manual_seed(1)  # all regions begin with the same model
    torch.set_num_threads(1)
    model = Model(*SIZES[os.environ["SIZE"]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    name = os.environ.get("CAUSEWAY_REGION") or os.environ["RANK"]
    SYSTEMS[os.environ["SYSTEM"]](model, optimizer, Log(f"{sys.argv[1]}{name}.jsonl", model))


if __name__ == "__main__":
    main()
