"""A region that Lightning trains."""
import hashlib
import logging
import os
import tempfile

import lightning
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from causeway.torch.lightning import RunCallback

WIDTH, BATCH = 32, 16


class Reverses(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.loss = torch.tensor(float("nan"))  # unless there is a step left to take
        self.layers = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def training_step(self, rows, index):
        self.loss = F.mse_loss(self.layers(rows), rows.flip(1))
        return self.loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Reverses()
    own = int(hashlib.sha256(os.environ["CAUSEWAY_REGION"].encode()).hexdigest(), 16) % 1000
    rows = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(own))
    with tempfile.TemporaryDirectory() as output:
        trainer = lightning.Trainer(max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False, default_root_dir=output,
                                    callbacks=[RunCallback(samples_per_step=BATCH)])
        trainer.fit(model, DataLoader(rows, BATCH))
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"ends with loss {model.loss.item():.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
