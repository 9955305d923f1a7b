"""When did a training reach a loss? Read from the metrics.csv of its run."""

from __future__ import annotations

import csv
from pathlib import Path

import yaml

from ..positions import NotDefined


def time_to(target: float, history: Path) -> float:
    """Seconds of training until the validation loss was `target` nats or less, validations not counted.

    Between the first validation at or under `target` and the one before it, the loss is taken to fall in a line.
    Time is steps times samples a step over the recorded throughput, each stretch at its own. NotDefined where
    the loss never came there, or nothing was recorded.
    """
    if not history.exists():
        raise NotDefined("The run has no metrics.csv.")
    with history.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    losses = column(rows, "val/loss")
    rates = column(rows, "train/samples_per_second")
    if not losses:
        raise NotDefined("The run recorded no validation loss.")
    if not rates:
        raise NotDefined("The run is too short: it ended before its throughput was recorded.")
    batch = yaml.safe_load(history.with_name("config.yaml").read_text())["global_batch_size"]
    return seconds_to(step_of(target, losses), rates, batch)


def column(rows: list[dict[str, str]], name: str) -> list[tuple[int, float]]:
    """(step, value) of the rows that have one."""
    return [(int(row["step"]), float(row[name])) for row in rows if row.get(name)]


def step_of(target: float, losses: list[tuple[int, float]]) -> float:
    """The step, with a fraction, at which the loss of (step, loss) pairs was `target`."""
    before: tuple[int, float] | None = None
    for step, loss in losses:
        if loss <= target:
            if before is None:
                return step
            start, high = before
            return start + (step - start) * (high - target) / (high - loss)
        before = step, loss
    least = min(loss for _, loss in losses)
    raise NotDefined(f"The validation loss never came to {target:g}: its least was {least:.4g}.")


def seconds_to(step: float, rates: list[tuple[int, float]], batch: int) -> float:
    """Of training up to `step`, given (step, samples a second until it) pairs; the last rate goes on."""
    seconds, start = 0.0, 0.0
    for end, rate in [*rates, (step, rates[-1][1])]:
        stop = min(float(end), step)
        if stop > start:
            seconds += (stop - start) * batch / rate
            start = stop
    return seconds
