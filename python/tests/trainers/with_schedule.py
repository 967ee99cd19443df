"""A region whose library lays out the learning rate's schedule: with_schedule.py LIBRARY [DIE_AT]. Prints each step's rate, and kills
itself once before the step DIE_AT."""
import logging
import os
import pathlib
import signal
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, BATCH, RATE = 8, 4, 0.01


class Watching:
    """Of a RunCallback: what each step was taken with."""

    def __init__(self, die_at):
        self.die_at = die_at
        self.marker = pathlib.Path(os.environ["CAUSEWAY_DIRECTORY"]) / "died"

    def see(self, step, rate):
        if step is None:
            return
        if step.schedule_step == self.die_at and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        print("rate", step.schedule_step, step.run_steps, repr(rate), flush=True)


def transformers(watching):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

    from causeway.torch.transformers import RunCallback
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=10, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0,
                                       eos_token_id=0))
    rows = [{"input_ids": torch.tensor([number % 10] * 8), "labels": torch.tensor([number % 10] * 8)} for number in range(1000)]
    run = RunCallback(samples_per_step=BATCH, save_rounds=1)

    class Look(TrainerCallback):
        def on_step_begin(self, args, state, control, optimizer=None, **others):
            watching.see(run.step, optimizer.param_groups[0]["lr"])

    with tempfile.TemporaryDirectory() as output:
        arguments = TrainingArguments(output, per_device_train_batch_size=BATCH, learning_rate=RATE, lr_scheduler_type="linear",
                                      save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=1000)
        trainer = Trainer(model, arguments, train_dataset=rows, callbacks=[run, Look()])
        trainer.train()
        print("global step", trainer.state.global_step, "of", trainer.state.max_steps, flush=True)


def lightning(watching):
    import lightning as library

    from causeway.torch.lightning import RunCallback
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(1)
    run = RunCallback(samples_per_step=BATCH, save_rounds=1)

    class Module(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)

        def on_train_batch_start(self, batch, index):
            watching.see(run.step, self.optimizers().param_groups[0]["lr"])

        def training_step(self, rows, index):
            return F.mse_loss(self.layer(rows), rows.flip(1))

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=RATE)
            steps = self.trainer.estimated_stepping_batches
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    with tempfile.TemporaryDirectory() as output:
        trainer = library.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                  enable_model_summary=False, default_root_dir=output, callbacks=[run])
        trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(64, WIDTH), BATCH))
        print("global step", trainer.global_step, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](Watching(int(sys.argv[2]) if len(sys.argv) > 2 else -1))
