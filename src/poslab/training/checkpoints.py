"""last.ckpt and best.ckpt: plain containers, replaced as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning as L


class Checkpoints(L.Callback):
    """After every validation saves `last.ckpt`, always the newest step, and `best.ckpt` by validation loss."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.best: dict[str, float] = {}

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == trainer.max_steps:
            trainer.should_stop = True  # Lightning validates before it stops: the last step is always saved

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        if trainer.sanity_checking or not module.validation:
            return
        metrics = module.validation | {"step": trainer.global_step}
        is_best = not self.best or metrics["loss"] < self.best["loss"]
        if is_best:
            self.best = metrics
        self.save(trainer, "last")
        if is_best and trainer.is_global_zero:  # same bytes: a copy, swapped in as a whole
            temporary = self.directory / "best.tmp"
            temporary.write_bytes((self.directory / "last.ckpt").read_bytes())
            os.replace(temporary, self.directory / "best.ckpt")

    def save(self, trainer: L.Trainer, name: str) -> None:
        """Every rank calls this; a reader sees the old file or the new one, never a part."""
        temporary = self.directory / f"{name}.tmp"
        trainer.save_checkpoint(temporary)
        if trainer.is_global_zero:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, self.directory / f"{name}.ckpt")

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]
