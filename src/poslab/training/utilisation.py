"""Model FLOPs utilisation: how much of what a device could do a training does."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from lightning.fabric.utilities.throughput import get_available_flops

from ..evaluators.cost import random_batch
from ..evaluators.timing import forward_flops

TRAINING = 3  # a step costs its forward pass and, backwards, twice that (Kaplan et al. 2020, section 2.1)

# dense operations a second in half precision, from the vendor's data sheets; the first name that fits. Of the H200 and
# the H100 NVL Lightning's table has what sparse matrices reach, twice as much.
DENSE = {
    "H200": 989e12, "H100 NVL": 835e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12,
    "A10G": 70e12,
}  # fmt: skip


def ideal_seconds(model: Any, data: Any, device: torch.device, precision: str, devices: int) -> float | None:
    """Seconds that a training sample would take if all `devices` did nothing but its matrix products.

    `model` and its sample are still on the CPU; `device` is where they will be, `precision` is as Lightning says it.

    None on a CPU and on a device whose peak is not known: there is nothing to compare with.
    """
    if device.type != "cuda":
        return None
    dtype = torch.bfloat16 if "bf16" in precision else torch.float16 if "16" in precision else torch.float32
    peak = peak_flops(device, dtype)
    if not peak:
        return None
    size = tuple(data.size) if data.kind == "image" else (data.context,)
    inputs, _ = random_batch(data, size, 1, torch.device("cpu"))
    return TRAINING * forward_flops(model, inputs) / (peak * devices)


def peak_flops(device: torch.device, dtype: torch.dtype) -> float | None:
    """What a GPU could do in a second; None where nobody knows."""
    name = torch.cuda.get_device_name(device)
    if dtype in (torch.bfloat16, torch.float16) and (known := [peak for gpu, peak in DENSE.items() if gpu in name]):
        return known[0]
    with warnings.catch_warnings():  # about a device that Lightning does not know
        warnings.simplefilter("ignore")
        return get_available_flops(device, dtype)
