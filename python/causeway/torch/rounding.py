"""From fp32 to the parameters' own type."""
import torch

# How many of the 23 bits of an fp32 fraction the type has no room for.
DROPPED_BITS = {torch.bfloat16: 16, torch.float16: 13}


def stochastic(values: torch.Tensor, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """fp32 `values` as `dtype` (bf16 or fp16), rounded up or down by chance, so that the mean is right.

    A change that is smaller than the type's steps is then not lost in every round: it gets through as often as it is
    large. `seed`: an integer; the same seed gives the same bits. What is not finite stays so.
    """
    chance = torch.Generator().manual_seed(seed & (1 << 63) - 1)
    bits = DROPPED_BITS[dtype]
    added = torch.randint(0, 1 << bits, values.shape, generator=chance, dtype=torch.int32, device="cpu")
    mask = -1 << bits
    rounded = ((values.view(torch.int32) + added) & mask).view(torch.float32)
    return torch.where(torch.isfinite(values), rounded, values).to(dtype)
