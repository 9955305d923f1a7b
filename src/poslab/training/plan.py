"""How long to train and on how many samples at once, from a configuration."""

from __future__ import annotations

from typing import Any

from ..data.order import Training
from ..errors import UsageError


def settle_length(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with one of steps and epochs: what was typed wins over what a model's file says.

    UsageError where both were typed, or neither is set.
    """
    typed = {word.partition("=")[0] for word in config["overrides"]} & {"steps", "epochs"}
    typed = {key for key in typed if config[key] is not None}
    if len(typed) == 2:
        raise UsageError("steps= and epochs= both say how long to train: give one of them.")
    if config["steps"] is None and config["epochs"] is None:
        raise UsageError("Nothing says how long to train: set steps= or epochs=.")
    if "epochs" in typed:
        return config | {"steps": None}
    return config | ({"epochs": None} if config["steps"] is not None else {})


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
    steps = config["steps"] or config["epochs"] * (samples // step)
    repeats = config["data"].get("repeats", 1)
    if repeats < 1 or step % repeats:
        raise UsageError(f"data.repeats={repeats} does not divide global_batch_size={step}: choose a divisor.")
    return Training(samples, step, micro, steps, config["seed"], start, world=world, repeats=repeats)
