"""TensorBoard: event files in the run directory, `tensorboard --logdir runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger

from . import evaluation
from .names import flat


class Tracker(TensorBoardLogger):
    """Lightning's logger, and what happens when training is over."""

    def report(self, directory: Path, step: int) -> None:
        """What was measured at the end, beside the last step."""
        self.log_metrics(evaluation(directory), step)
        self.save()

    def close(self, code: int) -> None:
        self.finalize("success")


def make(options: dict[str, Any], directory: Path, config: dict[str, Any]) -> Tracker:
    """A run that goes on adds a file of its own, which TensorBoard reads as one curve."""
    tracker = Tracker(save_dir=directory, name="", version="tensorboard", default_hp_metric=False)
    tracker.log_hyperparams(flat(config))
    return tracker
