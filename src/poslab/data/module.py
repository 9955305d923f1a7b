"""The Lightning side of a data set: loaders over one long pass, so that a step alone says where training is."""

from __future__ import annotations

from typing import Any

import lightning as L
from torch import Tensor
from torch.utils.data import DataLoader

from .order import EvalOrder, Training, WithChance


class Loaders(L.LightningDataModule):
    """Loaders for one rank.

    Args:
        data: a data set of `poslab.data`. training: the order of the samples.
        batch: evaluation samples a device takes at once. workers: processes that make batches.
    """

    def __init__(self, data: Any, training: Training, batch: int, workers: int = 0) -> None:
        super().__init__()
        self.data, self.training, self.batch, self.workers = data, training, batch, workers

    def _rank(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
        order = self.training.on_rank(self._rank()[0])
        chances = getattr(self.data.train, "chances", 0)
        return self._loader(self.data.train, WithChance(order, chances) if chances else order)

    def val_dataloader(self) -> DataLoader[dict[str, Tensor]]:
        return self._loader(self.data.val, EvalOrder(len(self.data.val), self.batch, *self._rank()))

    def _loader(self, split: Any, order: Any) -> DataLoader[dict[str, Tensor]]:
        # each index that the sampler yields is a whole batch: no per-sample Python
        return DataLoader(split, sampler=order, batch_size=None, num_workers=self.workers)
