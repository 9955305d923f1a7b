"""Reverse a string of random symbols."""

from __future__ import annotations

from torch import Tensor

from .copy import Copy


class Reverse(Copy):
    """s_1 ... s_L | s_L ... s_1: the second half is asked for. Kazemnejad et al. 2023 (NoPE).

    The k-th symbol of the answer stands 2k tokens behind its source, whatever the length. Arguments
    are those of `Copy`.
    """

    rule = "reverse a string"

    def answer(self, string: Tensor) -> Tensor:
        return string.flip(1)
