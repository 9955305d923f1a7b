"""Ctrl-C and SIGTERM: finish the step, save, say how to go on. SLURM's warning of a time limit: save, start again."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from types import FrameType
from typing import Any

import lightning as L
import torch

from ..errors import Interrupted
from .checkpoints import Checkpoints

log = logging.getLogger("poslab")

STOP = (signal.SIGINT, signal.SIGTERM)
START_AGAIN = (signal.SIGUSR1, signal.SIGUSR2)  # of a SLURM job, as `sbatch --signal` names them


class Interrupt(L.Callback):
    """Turns the first signal into a checkpoint at the end of the step; a second one kills.

    In a SLURM job SIGUSR1 and SIGUSR2 put the job back into the queue as well, and `resume=auto` goes on there.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self.signum = 0
        self._previous: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        for signum in (*STOP, *(START_AGAIN if "SLURM_JOB_ID" in os.environ else ())):
            self._previous[signum] = signal.signal(signum, self._note)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signum = signum
        signal.signal(signum, signal.SIG_DFL)

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        signum = self.signum  # a signal that comes from here on, as the ranks wait for each other, is the next step's
        if trainer.world_size > 1:  # ranks hear of a signal at different steps: they stop at the same one
            signum = int(trainer.strategy.reduce(torch.tensor(signum, device=module.device), reduce_op="max"))
        if signum:
            self.checkpoints.save(trainer)
            if signum in START_AGAIN:
                if trainer.is_global_zero:
                    requeue()
                trainer.strategy.barrier()  # a rank that leaves before would end the job
            raise Interrupted(signum)

    def teardown(self, trainer: L.Trainer, module: Any, stage: str) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous = {}

    def on_exception(self, trainer: L.Trainer, module: Any, exception: BaseException) -> None:
        self.teardown(trainer, module, "fit")  # Lightning calls no teardown hook after an exception


def requeue() -> None:
    """Put this SLURM job back into the queue."""
    job = os.environ["SLURM_JOB_ID"]
    log.info(f"SLURM job {job}: the time is up, saved; back into the queue")
    subprocess.run(["scontrol", "requeue", job], check=True)
