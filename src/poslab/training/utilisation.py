"""Model FLOPs utilisation: how much of what a device could do a training does."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from lightning.fabric.utilities.throughput import get_available_flops

from ..evaluators.timing import forward_flops

TRAINING = 3  # a step costs its forward pass and, backwards, twice that (Kaplan et al. 2020, section 2.1)


def ideal_seconds(model: Any, data: Any, device: torch.device, precision: str, devices: int) -> float | None:
    """Seconds that a training sample would take if all `devices` did nothing but its matrix products.

    `model` and its sample are still on the CPU; `device` is where they will be, `precision` is as Lightning says it.

    None on a CPU and on a device whose peak is not known: there is nothing to compare with.
    """
    if device.type != "cuda":
        return None
    dtype = torch.bfloat16 if "bf16" in precision else torch.float16 if "16" in precision else torch.float32
    with warnings.catch_warnings():  # about a device that Lightning does not know
        warnings.simplefilter("ignore")
        peak = get_available_flops(device, dtype)
    return TRAINING * forward_flops(model, one(data)) / (peak * devices) if peak else None


def one(data: Any) -> torch.Tensor:
    """A training sample, (1, T) or (1, channels, height, width)."""
    batch = data.train[torch.zeros(1, dtype=torch.long)]
    return batch["inputs"] if data.kind == "text" else data.prepare(batch["images"])
