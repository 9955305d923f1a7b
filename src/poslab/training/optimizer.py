"""AdamW with named parameter groups, and its schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ..positions import PositionEncoding


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """ "decay": matrices of linear maps and token tables. "no_decay": norms, biases, class and register
    tokens. "position": whatever an encoding learned, never decayed. Each parameter is in one group."""
    position = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, PositionEncoding)
        for parameter in module.parameters()
    }
    matrices = {
        id(module.weight) for module in model.modules() if isinstance(module, (nn.Linear, nn.Embedding))
    } - position  # fmt: skip
    names: dict[str, list[nn.Parameter]] = {"decay": [], "no_decay": [], "position": []}
    for parameter in model.parameters():  # a tied parameter comes once
        group = "position" if id(parameter) in position else "decay" if id(parameter) in matrices else "no_decay"
        names[group].append(parameter)
    return [
        {"name": name, "params": parameters, "weight_decay": weight_decay if name == "decay" else 0.0}
        for name, parameters in names.items()
        if parameters
    ]


def make_optimizer(model: nn.Module, optim: Mapping[str, Any]) -> torch.optim.AdamW:
    """AdamW over `parameter_groups`, fused where the device has such a kernel."""
    device = next(model.parameters()).device.type
    return torch.optim.AdamW(
        parameter_groups(model, optim["weight_decay"]),
        lr=optim["lr"],
        betas=tuple(optim["betas"]),
        eps=optim["eps"],
        fused=device in ("cpu", "cuda"),
    )


def warmup_cosine(steps: int, warmup: float, final: float) -> Callable[[int], float]:
    """Factor of the learning rate at each step: a line up over `warmup * steps`, then half a cosine to `final`."""
    rising = max(1, round(warmup * steps))

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        progress = min(1.0, (step - rising) / max(1, steps - rising))
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))

    return factor
