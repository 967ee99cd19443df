"""Where the generators of random numbers stand that a trainer may draw from."""
from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any

import torch


def random_numbers() -> dict[str, Any]:
    """Where the generators of PyTorch, Python and NumPy stand, as numbers and tensors."""
    state: dict[str, Any] = {"random": torch.get_rng_state(), "random of Python": random.getstate()}
    if torch.cuda.is_available():
        state["random of the device"] = torch.cuda.get_rng_state()
        state["random of all devices"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["random of NumPy"] = (str(kind), keys.tolist(), *(float(one) if isinstance(one, float) else int(one) for one in rest))
    return state


def set_random_numbers(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["random"])
    if torch.cuda.is_available() and "random of the device" in state:
        # Of those that are still there. An earlier version kept the current one's alone, and the current one may be another now.
        for device, numbers in zip(range(torch.cuda.device_count()), state.get("random of all devices", ())):
            torch.cuda.set_rng_state(numbers, device)
        torch.cuda.set_rng_state(state["random of the device"])
    if "random of Python" in state:
        version, numbers, gauss = state["random of Python"]
        random.setstate((version, tuple(numbers), gauss))
    if "random of NumPy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(tuple(state["random of NumPy"]))
