"""In which order samples are seen, as a function of (seed, epoch) and nothing else.

One global permutation, cut into global batches and these into ranks: the same samples make a step
whatever the number of devices, and a position counted in samples resumes on any of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


class TrainOrder:
    """Index batches of one rank for one epoch. As a sampler with `batch_size=None`, it is the batches.

    Args:
        samples: size of the data set. batch: samples a device takes at once.
        accumulate: how many such batches make a step. The last incomplete step of an epoch is left out.

    `start` skips that many of this rank's batches once, in the next pass only: a resumed epoch.
    """

    def __init__(
        self, samples: int, batch: int, seed: int, rank: int = 0, world: int = 1, accumulate: int = 1, epoch: int = 0
    ) -> None:
        self.step = batch * accumulate * world
        if samples < self.step:
            raise ValueError(
                f"A step takes {self.step} samples and the training split has {samples}: lower global_batch_size."
            )
        self.samples, self.batch, self.seed, self.rank, self.world = samples, batch, seed, rank, world
        self.accumulate, self.epoch = accumulate, epoch
        self.start = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.samples // self.step * self.accumulate

    def __iter__(self) -> Iterator[Tensor]:
        generator = torch.Generator().manual_seed((self.seed << 20) + self.epoch)
        order = torch.randperm(self.samples, generator=generator)
        start, self.start = self.start, 0
        for number in range(start, len(self)):
            first = (number * self.world + self.rank) * self.batch
            yield order[first : first + self.batch]


class EvalOrder:
    """All samples once over all ranks, in order; every rank has equally many batches, padded with -1."""

    def __init__(self, samples: int, batch: int, rank: int = 0, world: int = 1) -> None:
        self.samples, self.batch, self.rank, self.world = samples, batch, rank, world

    def __len__(self) -> int:
        return -(-self.samples // (self.batch * self.world))

    def __iter__(self) -> Iterator[Tensor]:
        for number in range(len(self)):
            first = (number * self.world + self.rank) * self.batch
            index = torch.arange(first, first + self.batch)
            yield torch.where(index < self.samples, index, -1)
