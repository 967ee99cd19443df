"""What the tensors of a PyTorch model are called in a run, and in the files that it writes."""
from __future__ import annotations

from typing import Any

# What wrappers put into the names, so that regions that wrap a model differently have the same names.
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
# Before the names of what is no parameter: statistics, and the digest of frozen parameters. What the run does with a tensor, its name
# says: see docs/audit.md.
AVERAGE, LOWEST, FROZEN = "average:", "lowest:", "lowest:frozen:"
# A whole number crosses in parts that fp32 holds exactly, and so does the difference of two. The first dimension counts the parts.
PART_BITS, PARTS = 22, 3


def plain_name(name: str) -> str:
    while (found := next((w for w in WRAPPERS if name.startswith(w)), None)) is not None:
        name = name[len(found):]
    for wrapper in WRAPPERS:
        name = name.replace("." + wrapper, ".")
    return name


def whole_number(parts: Any) -> Any:
    """As int64, of the parts that stand for it."""
    import torch
    pieces = parts.to(torch.int64)
    return sum((pieces[part] << part * PART_BITS for part in range(PARTS)), torch.zeros_like(pieces[0]))
