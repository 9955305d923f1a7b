"""Ctrl-C and SIGTERM: finish the step, save, say how to go on."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

import lightning as L
import torch

from ..errors import Interrupted
from .checkpoints import Checkpoints


class Interrupt(L.Callback):
    """Turns the first SIGINT or SIGTERM into a checkpoint at the end of the step; a second one kills."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self.signum = 0
        self._previous: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM):
            self._previous[signum] = signal.signal(signum, self._note)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signum = signum
        signal.signal(signum, signal.SIG_DFL)

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        if trainer.world_size > 1:  # ranks hear of a signal at different steps: they stop at the same one
            self.signum = int(trainer.strategy.reduce(torch.tensor(self.signum, device=module.device), reduce_op="max"))
        if self.signum:
            self.checkpoints.save(trainer)
            raise Interrupted(self.signum)

    def teardown(self, trainer: L.Trainer, module: Any, stage: str) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous = {}

    def on_exception(self, trainer: L.Trainer, module: Any, exception: BaseException) -> None:
        self.teardown(trainer, module, "fit")  # Lightning calls no teardown hook after an exception
