"""A bias that is a function of each pair of positions, and costly to keep for all of them."""

from __future__ import annotations

from .base import PositionEncoding


class PairBias(PositionEncoding):
    """Says that `bias` of some queries and keys costs no more than those pairs do.

    Attention on a CPU then makes it a strip of queries at a time, and once more going back, where it would keep for
    every pair what the gradient needs. All that is learned must be in `parameters()`.
    """
