"""metrics.csv, and when something is written to it."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from statistics import median
from typing import Any

import lightning as L
from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from ..files import replacing


class MetricsFile(Logger):
    """One row a step in `metrics.csv`: step, epoch, then a column for each name that ever came.

    A resumed run drops the rows after the step it resumes from and goes on.
    """

    def __init__(self, directory: Path, steps_per_epoch: int, resumed_step: int = 0) -> None:
        super().__init__()
        self.path, self.steps_per_epoch = directory / "metrics.csv", steps_per_epoch
        self._columns = ["step", "epoch"]
        self._rows: list[dict[str, Any]] = []
        if resumed_step and self.path.exists():
            with self.path.open(newline="") as file:
                reader = csv.DictReader(file)
                self._columns = list(reader.fieldnames or self._columns)
                self._rows = [row for row in reader if int(row["step"]) <= resumed_step]
        self._written = -1  # rows on disk; -1: the whole file is to be written

    @property
    def name(self) -> str:
        return "csv"

    @property
    def version(self) -> str:
        return ""

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The configuration is in config.yaml."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        if self._rows and int(self._rows[-1]["step"]) == step:
            self._rows[-1].update(metrics)
            if self._written == len(self._rows):  # the row is on disk without these columns
                self._written = -1
        else:
            self._rows.append({"step": step, "epoch": round((step or 0) / self.steps_per_epoch, 4), **metrics})
        new = [name for name in metrics if name not in self._columns]
        if new:
            self._columns += new
            self._written = -1

    @rank_zero_only
    def save(self) -> None:
        if self._written < 0:  # new columns: rewrite, so that an interrupted write leaves the old file
            with replacing(self.path) as part, part.open("w", newline="") as file:
                writer = csv.DictWriter(file, self._columns)
                writer.writeheader()
                writer.writerows(self._rows)
        elif self._written < len(self._rows):
            with self.path.open("a", newline="") as file:
                csv.DictWriter(file, self._columns).writerows(self._rows[self._written :])
        self._written = len(self._rows)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.save()


class Record(L.Callback):
    """Sends loss, learning rate, gradient norm and throughput to the loggers every `every` steps, and validations.

    Values stay on the device between two records, so that recording costs nothing in the other steps.
    With `ideal`, the seconds a sample takes at the peak of the devices, it also says what share of the peak is used.
    """

    def __init__(self, every: int = 50, ideal: float | None = None) -> None:
        self.every, self.ideal = every, ideal
        self._since: tuple[float, int] | None = None
        self._rates: list[float] = []

    def throughput(self) -> float | None:
        """Median training samples a second, over all processes; None before the first record."""
        return round(median(self._rates), 2) if self._rates else None

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return  # within a step: the count of steps stands still, and would be recorded again
        step = trainer.global_step
        if self._since is None:
            self._since = (time.perf_counter(), step)  # the first step after a pause also warms up
            if step % self.every and step < trainer.max_steps:
                return
        if step % self.every == 0 or step == trainer.max_steps:
            now = time.perf_counter()
            samples = (step - self._since[1]) * module.training_order.step
            metrics = {
                f"train/{name}": float(trainer.strategy.reduce(value, reduce_op="mean"))  # over the processes
                for name, value in module.latest.items()
            }
            metrics["train/lr"] = trainer.optimizers[0].param_groups[0]["lr"]
            if samples:
                self._rates.append(samples / (now - self._since[0]))
                metrics["train/samples_per_second"] = self._rates[-1]
                if self.ideal:
                    metrics["train/mfu"] = self._rates[-1] * self.ideal
            self._log(trainer, metrics)
            self._since = (now, step)

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        self._log(trainer, {f"val/{name}": value for name, value in module.validation.items()})
        self._since = None  # a validation is not training time

    @staticmethod
    def _log(trainer: L.Trainer, metrics: dict[str, float]) -> None:
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=trainer.global_step)
            logger.save()
