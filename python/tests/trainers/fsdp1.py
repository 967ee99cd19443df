"""One of two ranks of a region under FSDP1, with a worker's double: fsdp1.py STRATEGY USE_ORIG_PARAMS STORE RANK. Says how it ends."""
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from worker_double import a_run, steps  # noqa: E402

from causeway.torch import Run  # noqa: E402

strategy, use_orig_params, store, rank = sys.argv[1:]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
torch.manual_seed(1)
inner = FullyShardedDataParallel(torch.nn.Linear(8, 8), device_id=torch.device("cpu"), use_orig_params=use_orig_params == "yes",
                                 sharding_strategy=ShardingStrategy[strategy])
model = torch.nn.Sequential(inner, torch.nn.Linear(8, 8))  # the wrapper is not outermost
try:
    with a_run(steps(0, 1, 0, 0)) as (worker, directory), Run(model, directory=directory) as run:
        taken = len(list(run))
        print(f"took {taken} step", flush=True)
except ValueError as refusal:
    print(f"refused: {refusal}", flush=True)
dist.barrier()
os._exit(0)  # docs/python.md, "Gloo at the end"
