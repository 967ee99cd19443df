"""State that has tensors in dictionaries, lists and tuples."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

from .divided import DTensor


def like(value: Any, parts: Iterable[Any]) -> Any:
    """A list or tuple of the same type: a named tuple takes its parts one by one."""
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """In nested state, of this rank. Lists may be long."""
    found, left = list[torch.Tensor](), [value]
    while left:
        one = left.pop()
        if torch.is_tensor(one):
            found.append(one.to_local() if isinstance(one, DTensor) else one)
        elif isinstance(one, (dict, list, tuple)):
            left.extend(one.values() if isinstance(one, dict) else one)
    return found


def places_of(value: Any) -> set[int]:
    """In memory, of the tensors in nested state. A copy has another, and a sparse one has no one place."""
    found = set()
    for one in tensors_of(value):
        with contextlib.suppress(RuntimeError, NotImplementedError):
            found.add(one.data_ptr())
    return found - {0}


def without_tensors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_tensors(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return like(value, map(without_tensors, value))
    return None if torch.is_tensor(value) else value


def is_cast(saved: torch.Tensor, loaded: torch.Tensor) -> bool:
    """Not what an optimizer decodes itself, as numbers of 8 bits are by some."""
    if saved.dtype == loaded.dtype or saved.shape != loaded.shape:
        return False
    fractions = saved.is_floating_point() and loaded.is_floating_point()
    return fractions or torch.equal(saved.to(loaded.device, loaded.dtype), loaded)


def is_made_of(saved: Any, loaded: Any) -> bool:
    """The same, but for the types of tensors."""
    if torch.is_tensor(saved) and torch.is_tensor(loaded):
        one, other = (part.to_local() if isinstance(part, DTensor) else part for part in (saved, loaded))
        return one.shape == other.shape and torch.equal(one.to(other.device, other.dtype), other)
    if isinstance(saved, dict) and isinstance(loaded, dict):
        return saved.keys() == loaded.keys() and all(is_made_of(saved[key], loaded[key]) for key in saved)
    if isinstance(saved, (list, tuple)) and isinstance(loaded, (list, tuple)):
        return len(saved) == len(loaded) and all(map(is_made_of, saved, loaded))
    return type(saved) is type(loaded)


def with_types_of(saved: Any, loaded: Any) -> Any:
    """`loaded`, which was made of `saved`, with the saved tensors where their type was changed meanwhile, and nothing else."""
    if torch.is_tensor(saved) and torch.is_tensor(loaded):
        return saved.to(loaded.device) if is_cast(saved, loaded) else loaded
    if isinstance(saved, dict) and isinstance(loaded, dict):
        for key in loaded.keys() & saved.keys():
            loaded[key] = with_types_of(saved[key], loaded[key])
    elif isinstance(saved, (list, tuple)) and isinstance(loaded, (list, tuple)) and len(saved) == len(loaded):
        return like(loaded, map(with_types_of, saved, loaded))
    elif isinstance(saved, (str, bytes)):  # PyTorch reads a text as a list, and loads its generator's name
        return saved
    return loaded
