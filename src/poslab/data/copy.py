"""Copy a string of random symbols."""

from __future__ import annotations

import torch
from torch import Tensor

from .synthetic import Draw, Synthetic, answer_mask, letters


class Copy(Synthetic):
    """s_1 ... s_L | s_1 ... s_L: the second half is asked for. Kazemnejad et al. 2023 (NoPE).

    Each symbol stands L + 1 tokens behind its source: every length has a distance of its own.

    Args:
        length: symbols. symbols: how many kinds there are. Others are those of `Synthetic`.
    """

    unit = "symbols"
    rule = "copy a string"

    def __init__(self, length: int = 16, symbols: int = 16, samples: int = 20_000, lengths: str = "varied") -> None:
        if symbols < 2:
            raise ValueError(f"data.symbols={symbols}: a string to {self.name} has 2 kinds of symbols or more.")
        self.symbols = symbols
        super().__init__(letters(symbols) + "|", length, samples, lengths)

    def problem(self, draw: Draw, length: int) -> tuple[Tensor, Tensor]:
        string = draw.symbols(length, self.symbols)
        separator = torch.full((len(string), 1), self.symbols)
        tokens = torch.cat((string, separator, self.answer(string)), dim=1)
        return tokens, answer_mask(2 * length + 1, length)

    def answer(self, string: Tensor) -> Tensor:
        """What is to be written after `string` (B, L)."""
        return string

    def chance(self, length: int) -> float:
        return self.symbols**-length
