"""In which order samples are seen, as a function of (seed, epoch) and nothing else.

One global permutation an epoch, cut into steps, these into micro-batches and these into ranks: the
same samples make a step whatever the number of devices, and training goes on after step s on any
number of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor


def mixed(*parts: object) -> int:
    """A seed for a random generator out of anything that can be printed: unlike parts, unrelated seeds."""
    return int.from_bytes(sha256("/".join(map(str, parts)).encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Chance:
    """Random numbers for `count` samples, from number `first` on, of the `total` in a step.

    They are drawn for the whole step, so that they depend on (seed, step, place in the step) alone and not
    on how a step is divided over micro-batches and devices. Unlike purposes have unrelated numbers.
    """

    seed: int
    step: int
    first: int
    count: int
    total: int

    def uniform(self, purpose: str, numbers: int) -> Tensor:
        """(count, numbers) in [0, 1)."""
        generator = torch.Generator().manual_seed(mixed(self.seed, purpose, self.step))
        return self._mine(torch.rand(self.total, numbers, generator=generator))

    def beta(self, purpose: str, alpha: float) -> Tensor:
        """(count,) of the Beta distribution with both parameters `alpha`; torch's takes no generator."""
        draw = np.random.default_rng(mixed(self.seed, purpose, self.step)).beta(alpha, alpha, self.total)
        return self._mine(torch.from_numpy(draw).float())

    def _mine(self, drawn: Tensor) -> Tensor:
        return drawn[self.first : self.first + self.count]


@dataclass(frozen=True)
class Training:
    """The whole training as one pass: an iterable of one rank's index batches, epochs joined.

    Args:
        samples: size of the training split. step: samples that make an optimiser step, on all ranks.
        micro: samples that one rank takes at once. steps: optimiser steps of the training.
        start: steps already done; iteration begins after them, `len` stays that of the whole.
        repeats: times that each sample of a step is in it: step / repeats different ones, then the same again.

    Raises ValueError where a step takes more samples than there are. The last incomplete step of an
    epoch is left out.
    """

    samples: int
    step: int
    micro: int
    steps: int
    seed: int
    start: int = 0
    rank: int = 0
    world: int = 1
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.samples < self.step:
            raise ValueError(
                f"A step takes {self.step} samples and the training split has {self.samples}: lower global_batch_size."
            )
        if self.step % (self.micro * self.world):
            raise ValueError(
                f"global_batch_size={self.step} does not divide into micro-batches of {self.micro} on {self.world} "
                "devices: choose a device_batch_size that does."
            )

    def on_rank(self, rank: int) -> Training:
        return replace(self, rank=rank)

    @property
    def steps_per_epoch(self) -> int:
        return self.samples // self.step

    @property
    def accumulate(self) -> int:
        """Micro-batches of one rank that make a step."""
        return self.step // (self.micro * self.world)

    def place(self, micro_step: int) -> tuple[int, int]:
        """(step, first sample within that step's global batch) of this rank's micro-batch number `micro_step`."""
        step, part = divmod(micro_step, self.accumulate)
        return step, (part * self.world + self.rank) * self.micro

    def chance(self, micro_step: int) -> Chance:
        """What this rank's micro-batch number `micro_step` may draw."""
        step, first = self.place(micro_step)
        return Chance(self.seed, step, first, self.micro, self.step)

    def __len__(self) -> int:
        return self.steps * self.accumulate

    def __iter__(self) -> Iterator[Tensor]:
        epoch, order = -1, torch.empty(0)
        for number in range(self.start * self.accumulate, len(self)):
            step, first = self.place(number)
            if step // self.steps_per_epoch != epoch:
                epoch = step // self.steps_per_epoch
                generator = torch.Generator().manual_seed(mixed(self.seed, "order", epoch))
                order = torch.randperm(self.samples, generator=generator)
            distinct = self.step // self.repeats
            begin = step % self.steps_per_epoch * distinct
            yield order[begin : begin + distinct].repeat(self.repeats)[first : first + self.micro]


class WithChance:
    """An order whose batches come as (index, chance): `numbers` random ones in [0, 1) for each sample."""

    def __init__(self, order: Training, numbers: int) -> None:
        self.order, self.numbers = order, numbers

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for number, index in enumerate(self.order, start=self.order.start * self.order.accumulate):
            yield index, self.order.chance(number).uniform("read", self.numbers)


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
