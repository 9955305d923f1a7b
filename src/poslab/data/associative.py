"""Recall the value that was given with a key."""

from __future__ import annotations

import torch
from torch import Tensor

from .synthetic import Draw, Synthetic, letters


class Associative(Synthetic):
    """aQcRbZ bZaQcR: pairs of key and value, then each key again in another order, and its value is asked for.

    Multi-query associative recall, Arora et al. 2023 (Zoology), in its densest form: no key twice
    among the pairs, every key asked once, nothing in between. All orders are equally likely here; theirs
    prefer early places. Values may repeat.

    Args:
        length: pairs. keys, values: how many kinds there are. Others are those of `Synthetic`.
    """

    unit = "pairs"
    rule = "recall the value of each key"

    def __init__(
        self, length: int = 16, keys: int = 64, values: int = 64, samples: int = 20_000, lengths: str = "varied"
    ) -> None:
        if values < 2:
            raise ValueError(f"data.values={values}: a value that can be guessed is no task, use 2 or more.")
        self.keys, self.values = keys, values
        super().__init__(letters(keys) + letters(values, upper=True), length, samples, lengths)

    def problem(self, draw: Draw, length: int) -> tuple[Tensor, Tensor]:
        if length > self.keys:
            raise ValueError(f"{length} pairs want {length} keys, there are {self.keys}: raise data.keys in training.")
        keys = draw.order(self.keys)[:, :length]
        pairs = torch.stack((keys, self.keys + draw.symbols(length, self.values)), dim=2)
        order = draw.order(length)[:, :, None].expand_as(pairs)
        tokens = torch.cat((pairs, pairs.gather(1, order)), dim=1).flatten(1)
        step = torch.arange(4 * length)
        return tokens, (step >= 2 * length) & (step % 2 == 1)

    def chance(self, length: int) -> float:
        return self.values**-length
