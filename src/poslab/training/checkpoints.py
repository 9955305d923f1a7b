"""last.ckpt, best.ckpt and previous.ckpt: plain containers, replaced as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import lightning as L

NEWEST_FIRST = ("last.ckpt", "previous.ckpt")  # what a training goes on from


class Checkpoints(L.Callback):
    """After every validation saves `last.ckpt`, always the newest step, and `best.ckpt` by validation loss.

    `previous.ckpt` is the `last.ckpt` before, for the day when a disk damages the newest. Under FSDP2 they may be
    folders, to which each process writes its part (`parts.py`).
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.temporary = directory, directory / "saving.tmp"
        self.best: dict[str, float] = {}

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        if trainer.is_global_zero:
            remove(self.temporary)  # of a process that was killed as it wrote

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == trainer.max_steps:
            trainer.should_stop = True  # Lightning validates before it stops: the last step is always saved

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        if trainer.sanity_checking or not module.validation:
            return
        metrics = module.validation | {"step": trainer.global_step}
        is_best = not self.best or not metrics["loss"] >= self.best["loss"]  # a loss that is nan is beaten by any
        if is_best:
            self.best = metrics
        self.save(trainer, is_best)

    def save(self, trainer: L.Trainer, best: bool = False) -> None:
        """Every rank calls this; a reader sees the old files or the new ones, never a part.

        `last` is replaced after `best`: what it says of the best checkpoint is then true of that file.
        """
        trainer.save_checkpoint(self.temporary)
        if not trainer.is_global_zero:
            return
        for path in self.temporary.iterdir() if self.temporary.is_dir() else [self.temporary]:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        if best:
            copy = self.directory / "best.tmp"
            remove(copy)
            (shutil.copytree if self.temporary.is_dir() else shutil.copyfile)(self.temporary, copy)
            replace(copy, self.directory / "best.ckpt")
        last, previous, link = (self.directory / name for name in (*NEWEST_FIRST, "previous.tmp"))
        if last.is_dir():  # of a folder there is no second name: for a moment there is only the previous one
            replace(last, previous)
        elif last.exists():
            link.unlink(missing_ok=True)
            os.link(last, link)  # a second name, so that there is a last.ckpt at every moment
            replace(link, previous)
        replace(self.temporary, last)

    def complete(self) -> None:
        """Nothing goes on from a finished run."""
        remove(self.directory / "previous.ckpt")

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]


def remove(path: Path) -> None:
    """A file, or the folder of a checkpoint in parts, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replace(source: Path, target: Path) -> None:
    """In one step where `target` is a file; a folder has to be out of the way before."""
    if target.is_dir():
        remove(target)
    os.replace(source, target)
