"""What a person sees: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import lightning as L
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from ..files import write
from ..sweep.job import REPORT, brief

__all__ = ["REPORT", "Bar", "Lines", "Report"]

log = logging.getLogger("poslab")


class Bar(L.Callback):
    """One bar over all steps: steps done, time left, loss, throughput, the last validation."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress: Progress | None = None
        self._since = (0.0, 0)
        self._validation = ""

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        if not trainer.is_global_zero:
            return
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),  # narrows before a number would
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("left  {task.fields[note]}", table_column=Column(no_wrap=True)),
            expand=True,
            console=self.console,
            auto_refresh=False,
        )
        self._task = self._progress.add_task("", total=trainer.max_steps, completed=trainer.global_step, note="")
        self._progress.start()
        self._since = (time.monotonic(), trainer.global_step)

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        now, step = time.monotonic(), trainer.global_step
        if self._progress is None or (now - self._since[0] < 0.5 and step < trainer.max_steps):
            return  # two looks a second: reading the loss waits for the device
        rate = (step - self._since[1]) * module.training_order.step / max(now - self._since[0], 1e-9)
        note = f"loss {float(module.latest['loss']):.3f}{self._validation}  {rate:,.0f} samples/s"
        self._progress.update(self._task, completed=step, note=note, refresh=True)
        self._since = (now, step)

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        metrics = module.validation
        shown = {"accuracy": metrics["accuracy"]} if module.data.kind == "image" else {"loss": metrics["loss"]}
        self._validation = f"  val {brief(shown)}"
        self._since = (time.monotonic(), trainer.global_step)

    def teardown(self, trainer: L.Trainer, module: Any, stage: str) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def on_exception(self, trainer: L.Trainer, module: Any, exception: BaseException) -> None:
        self.teardown(trainer, module, "fit")  # Lightning calls no teardown hook after an exception


class Lines(L.Callback):
    """A line after a validation, at most one every `pause` seconds, and always the last."""

    def __init__(self, pause: float = 10.0) -> None:
        self.pause = pause
        self._last = float("-inf")
        self._start = (0.0, 0)

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        self._start = (time.monotonic(), trainer.global_step)

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        now, step = time.monotonic(), trainer.global_step
        if not trainer.is_global_zero or (now - self._last < self.pause and step < trainer.max_steps):
            return
        self._last = now
        done = step - self._start[1]
        left = (now - self._start[0]) / max(done, 1) * (trainer.max_steps - step)
        loss = f"loss {float(module.latest['loss']):.3f}, " if "loss" in module.latest else ""
        log.info(f"step {step:,} of {trainer.max_steps:,}: {loss}val {brief(module.validation)}, {left:.0f} s left")


class Report(L.Callback):
    """Tells a sweep how its job gets on: run directory, step and loss in a small file, twice a second at most."""

    def __init__(self, path: Path, directory: Path) -> None:
        self.path, self.directory = path, directory
        self._last = 0.0

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        self._write(trainer, {})

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if time.monotonic() - self._last >= 0.5:  # reading the loss waits for the device
            self._write(trainer, {"loss": float(module.latest["loss"])})

    def _write(self, trainer: L.Trainer, more: dict[str, Any]) -> None:
        facts = {"directory": str(self.directory), "step": trainer.global_step, "steps": trainer.max_steps, **more}
        write(self.path, json.dumps(facts))
        self._last = time.monotonic()
