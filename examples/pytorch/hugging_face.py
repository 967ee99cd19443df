"""Fine-tunes a Hugging Face model as one region of a run of Causeway.

The model is a small GPT-2 that is made here, so that nothing is downloaded: put AutoModelForCausalLM.from_pretrained(...)
in its place. Only the line marked with # <- is about Causeway. To try it in three regions on this machine:

    causeway init --trainer pytorch
    causeway simulate causeway.toml --worker 'python examples/pytorch/hugging_face.py'
"""
import hashlib
import os
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from causeway.torch.transformers import RunCallback

LENGTH, BATCH = 24, 16


class Counting(Dataset[dict[str, torch.Tensor]]):
    """Sequences in which each number is the sum of the two before it, modulo 10. Every region has its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        chance = torch.Generator().manual_seed(self.seed + number)
        digits = torch.randint(0, 10, (2,), generator=chance).tolist()
        while len(digits) < LENGTH:
            digits.append((digits[-1] + digits[-2]) % 10)
        return {"input_ids": torch.tensor(digits), "labels": torch.tensor(digits)}


def main() -> None:
    set_seed(1)  # all regions begin with the same model
    torch.set_num_threads(1)
    region = os.environ["CAUSEWAY_REGION"]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=10, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2,
                                       bos_token_id=0, eos_token_id=0))
    with tempfile.TemporaryDirectory() as output:
        arguments = TrainingArguments(output, per_device_train_batch_size=BATCH, learning_rate=3e-3, logging_steps=10,
                                      save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
        run = RunCallback(samples_per_step=BATCH, tokens_per_step=BATCH * LENGTH)  # <-
        trainer = Trainer(model, arguments, train_dataset=Counting(1_000_000 * (hash_of(region) % 1000)),
                          callbacks=[run])
        loss = trainer.train().training_loss
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"ends with loss {loss:.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


def hash_of(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


if __name__ == "__main__":
    main()
