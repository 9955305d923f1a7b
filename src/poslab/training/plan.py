"""How long to train and on how many samples at once, from a configuration."""

from __future__ import annotations

from typing import Any

from ..data.order import Training
from ..errors import UsageError


def plan(config: dict[str, Any], samples: int, world: int, start: int = 0) -> Training:
    """The order of the training samples on `world` processes; UsageError where the numbers do not fit."""
    step = config["global_batch_size"]
    if step > samples:
        raise UsageError(f"global_batch_size={step}: the training split has {samples} samples, choose at most that.")
    if step % world:
        raise UsageError(f"global_batch_size={step} does not divide over {world} devices: choose a multiple.")
    micro = config["device_batch_size"] or step // world
    if step % (micro * world):
        raise UsageError(
            f"device_batch_size={micro} on {world} devices does not divide global_batch_size={step}: choose a divisor."
        )
    if config["steps"] is None and config["epochs"] is None:
        raise UsageError("Nothing says how long to train: set steps= or epochs=.")
    steps = config["steps"] or config["epochs"] * (samples // step)
    return Training(samples, step, micro, steps, config["seed"], start, world=world)
