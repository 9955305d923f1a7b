"""The devices that measure: one, or a process on each of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..errors import UsageError
from ..evaluators.base import Part
from ..evaluators.memory import limit_memory
from ..evaluators.processes import Processes


def launch(hardware: Mapping[str, Any]) -> Processes:
    """Start the processes that `hardware` asks for; every one of them returns from here.

    Args:
        hardware: accelerator, devices, num_nodes and strategy, as in configs/hardware.

    UsageError where there are no such devices.
    """
    cuda = torch.cuda.is_available()
    accelerator, devices = hardware["accelerator"], hardware["devices"]
    if accelerator not in ("auto", "cpu", "gpu", "cuda"):
        raise UsageError(f"hardware.accelerator={accelerator} is not one of auto, cpu, gpu.")
    if accelerator in ("gpu", "cuda") and not cuda:
        raise UsageError(f"hardware.accelerator={accelerator}: torch sees no GPU here. Use hardware=cpu.")
    if hardware["strategy"] == "fsdp":
        raise UsageError("hardware=fsdp is for training: to measure on several devices say hardware=ddp.")
    on_gpu = cuda and accelerator != "cpu"
    if devices == "auto" and (not on_gpu or hardware["strategy"] == "auto"):
        devices = 1  # several start only where they were asked for
    if devices == 1 and hardware["num_nodes"] == 1:
        if not on_gpu:
            limit_memory()
        return Processes(torch.device("cuda" if on_gpu else "cpu"))

    from lightning import Fabric  # twelve seconds

    from ..training.console import quiet

    quiet()
    kind = "cuda" if on_gpu else "cpu"
    fabric = Fabric(accelerator=kind, devices=devices, num_nodes=hardware["num_nodes"], strategy="ddp")
    fabric.launch()
    return Processes(fabric.device, Part(fabric.global_rank, fabric.world_size))
