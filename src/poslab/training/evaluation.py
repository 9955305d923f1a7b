"""The questions of configs/evaluate, asked while a model trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning as L

from ..evaluators.base import Evaluator, Measurement, Part, size_word
from ..evaluators.measure import status_of
from ..evaluators.processes import Processes
from .sharding import FullyShardedStrategy


class Evaluation(L.Callback):
    """After every `every`-th validation logs what the evaluators measure as `length/1024/loss`.

    It runs before the moving average of the weights is taken out again, so that it measures what is
    saved. A size without a number is left out.
    """

    def __init__(self, evaluators: Sequence[Evaluator], data: Any, every: int, patch: tuple[int, ...] | None) -> None:
        self.asked = [(each, each.sizes(data, patch)) for each in evaluators]
        self.data, self.every = data, every
        self._validations = 0

    def on_validation_epoch_end(self, trainer: L.Trainer, module: Any) -> None:
        self._validations += 1
        if self._validations % self.every:
            return
        processes = Processes(module.device, Part(trainer.global_rank, trainer.world_size))
        if isinstance(trainer.strategy, FullyShardedStrategy):
            processes = Processes(module.device)  # it wants every process in every forward pass: each measures all
        found: dict[str, float] = {}
        for evaluator, sizes in self.asked:
            for size in sizes:
                try:
                    answer: Measurement | str = evaluator.measure(module.model, self.data, size, processes.part)
                except Exception as error:
                    answer = status_of(error)
                whole = processes.combine(answer)
                if isinstance(whole, Measurement):
                    place = f"{evaluator.name}/{size_word(size)}"
                    found |= {f"{place}/{name}": whole.value(name) for name in whole.totals if "@" not in name}
        for logger in trainer.loggers:
            logger.log_metrics(found, step=trainer.global_step)

    def state_dict(self) -> dict[str, Any]:
        return {"validations": self._validations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._validations = state_dict["validations"]
