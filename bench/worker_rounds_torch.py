"""bench/worker_rounds.cc in PyTorch: worker_rounds_torch.py TENSORS ROWS COLUMNS [DEVICE], started by `causeway simulate --worker`."""
import resource
import sys

import torch

from causeway.torch import Run


def main(tensors, rows, columns, device="cpu"):
    torch.set_num_threads(1)
    model = torch.nn.ParameterList(torch.zeros(int(rows), int(columns), device=device) for _ in range(int(tensors)))
    with Run(model, save_rounds=1000) as run:
        for _ in run:
            with torch.no_grad():
                for parameter in model:
                    parameter += 1e-3
            run.report(0)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3:.0f} MB", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
