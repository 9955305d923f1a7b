"""Trackio: a dashboard on this machine, without an account; `trackio show` opens it."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import trackio
from lightning.pytorch.loggers.logger import Logger

from . import evaluation
from .names import flat, sweep_of


class Tracker(Logger):
    """A record under the name of the run directory, in which a run that goes on goes on."""

    def __init__(self, options: dict[str, Any], directory: Path, config: dict[str, Any]) -> None:
        super().__init__()
        self._directory = directory
        with redirect_stdout(io.StringIO()):  # how to open the dashboard, said for every job
            self._run = trackio.init(
                project=options["project"],
                name=directory.name,
                group=options["group"] or sweep_of(directory),
                config=flat(config),
                resume="allow",
                embed=False,
            )

    @property
    def name(self) -> str:
        return "trackio"

    @property
    def version(self) -> str:
        return self._directory.name

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The settings were given at the start."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self._run.log(metrics, step=step)

    def report(self, directory: Path, step: int) -> None:
        """What was measured at the end, beside the last step."""
        self.log_metrics(evaluation(directory), step)

    def close(self, code: int) -> None:
        with redirect_stdout(io.StringIO()):
            trackio.finish()


def make(options: dict[str, Any], directory: Path, config: dict[str, Any]) -> Tracker:
    return Tracker(options, directory, config)
