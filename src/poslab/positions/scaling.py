"""Rotary frequencies for inputs longer than those of training, as functions from frequencies to frequencies.

In all of them f_i is the frequency of pair i = 0 ... n - 1 on an axis, L0 the extent that the frequencies
were trained at, T the extent of this forward pass and s how many times longer to read: `factor`, or
T / L0 (never below 1) where factor is null, so that the trained size is left as it was. Images scale
each axis by its own s. The result depends on the size alone, never on what ran before. Every rule has the
form f_i * (1 - a (1 - 1/s)), or one that is as exact at s = 1: frequencies are then bit for bit those of training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def log(s: float) -> float:
    """ln(s), through the one logarithm that a compiler follows for sizes that change."""
    return math.log2(s) * math.log(2)


class Scaling:
    """What a rule says about frequencies and, where it has a say there, about the length of q and k."""

    rescales = False  # whether `magnitude` is ever other than 1

    def __init__(self, factor: float | None = None, original: int | None = None) -> None:
        if factor is not None and factor < 1:
            raise ValueError(f"scaling.factor={factor}: inputs get longer by a factor of 1 or more, or null.")
        if original is not None and original < 1:
            raise ValueError(f"scaling.original={original} is a number of positions, or null for those of training.")
        self.factor, self.original = factor, original

    def fit(self, pairs: int) -> None:
        """ValueError where the rule is not for so many pairs on an axis."""

    def stretch(self, extent: int, trained: int) -> float:
        """s of an axis."""
        return max(1.0, extent / (self.original or trained)) if self.factor is None else self.factor

    def frequencies(self, frequency: Tensor, theta: float, extent: int, trained: int) -> Tensor:
        """`frequency` (..., n) of an axis, theta^(-i/n) at their start, for an axis of `extent` positions."""
        raise NotImplementedError

    def magnitude(self, extent: int, trained: int) -> float:
        """What cos and sin are multiplied by, on q and on k."""
        return 1.0


class Linear(Scaling):
    """f_i / s: position interpolation.      Chen et al. 2023, "Extending Context Window ...", equation 4."""

    def frequencies(self, frequency: Tensor, theta: float, extent: int, trained: int) -> Tensor:
        return frequency / self.stretch(extent, trained)


class NTK(Scaling):
    """theta -> theta * s^(n/(n-1)), so f_0 stays and f_{n-1} is divided by s.

    bloc97 2023, "NTK-aware scaled RoPE" (given in Peng et al. 2024, YaRN, section 3.1, with R = 2n).
    Written as f_i * s^(-i/(n-1)), which holds for learned frequencies too.
    """

    def fit(self, pairs: int) -> None:
        if pairs < 2:
            raise ValueError("ntk scaling needs two pairs of channels on each axis: choose wider heads.")

    def frequencies(self, frequency: Tensor, theta: float, extent: int, trained: int) -> Tensor:
        n = frequency.shape[-1]
        i = torch.arange(n, dtype=torch.float64, device=frequency.device)
        return frequency * self.stretch(extent, trained) ** (-i / (n - 1))


class DynamicNTK(NTK):
    """`ntk` with s = factor * T / L0 - (factor - 1), T >= L0: nothing changes up to L0.

    emozilla 2023, "Dynamically scaled RoPE" (Peng et al. 2024, section 3.3). T is the size of the whole
    input or generation, so a cached pass equals the full one. With factor 1 this is `ntk` with s = T / L0.
    """

    def __init__(self, factor: float = 1.0, original: int | None = None) -> None:
        super().__init__(factor, original)

    def stretch(self, extent: int, trained: int) -> float:
        original, factor = self.original or trained, self.factor or 1.0
        return factor * max(extent, original) / original - (factor - 1)


class YaRN(Scaling):
    """f_i / s for pairs that turn less than `beta_slow` times within L0, f_i above `beta_fast` turns, a ramp between.

    Peng et al. 2024, "YaRN", section 3.2, with the authors' ramp over the index i, whose ends
    i(beta) = n * ln(L0 / (2 pi beta)) / ln(theta) are rounded outwards where `truncate`; and section
    3.4: q and k grow by .1 ln(s) + 1 each, which sharpens attention over more tokens.
    For learned frequencies theta is that of their start. The ends are kept within 0 ... 2n - 1 as in the
    authors' code; an axis so short that they lie below 0 (L0 < 2 pi beta_slow) has all pairs but the first divided.
    """

    rescales = True

    def __init__(
        self,
        factor: float | None = None,
        original: int | None = None,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        truncate: bool = True,
    ) -> None:
        super().__init__(factor, original)
        if not beta_fast > beta_slow > 0:
            raise ValueError(f"yarn needs beta_fast > beta_slow > 0, not {beta_fast} and {beta_slow}.")
        self.beta_fast, self.beta_slow, self.truncate = beta_fast, beta_slow, truncate

    def frequencies(self, frequency: Tensor, theta: float, extent: int, trained: int) -> Tensor:
        if theta <= 1:
            raise ValueError(f"yarn tells pairs apart by frequencies that fall with theta > 1, not {theta}.")
        n = frequency.shape[-1]
        original = self.original or trained
        low, high = (
            n * math.log(original / (2 * math.pi * turns)) / math.log(theta)
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * n - 1)
        i = torch.arange(n, dtype=torch.float64, device=frequency.device)
        slow = ((i - low) / max(high - low, 1e-3)).clamp(0, 1)
        return frequency * (1 - slow * (1 - 1 / self.stretch(extent, trained)))

    def magnitude(self, extent: int, trained: int) -> float:
        return 0.1 * log(self.stretch(extent, trained)) + 1


class Llama3(Scaling):
    """f / s where the wavelength 2 pi / f exceeds L0 / `low`, f where it is under L0 / `high`, linear in f between.

    Grattafiori et al. 2024, "The Llama 3 Herd of Models", and the code released with Llama 3.1.
    """

    def __init__(
        self, factor: float | None = None, original: int | None = None, low: float = 1.0, high: float = 4.0
    ) -> None:
        super().__init__(factor, original)
        if not high > low > 0:
            raise ValueError(f"llama3 needs high > low > 0, not {high} and {low}.")
        self.low, self.high = low, high

    def frequencies(self, frequency: Tensor, theta: float, extent: int, trained: int) -> Tensor:
        turns = frequency.abs() * (self.original or trained) / (2 * math.pi)  # within L0
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequency * (1 - (1 - kept) * (1 - 1 / self.stretch(extent, trained)))


class LongRoPE(Scaling):
    """f_i / long_i for inputs beyond L0, f_i / short_i up to L0.

    Ding et al. 2024, "LongRoPE", section 3. Both lists have a number for each pair, which the paper
    finds by evolutionary search: they belong to one trained model, so there is no default but ones
    for the short list. q and k grow by sqrt(1 + ln(s) / ln(L0)) (Phi-3's released code).
    """

    rescales = True

    def __init__(
        self,
        long: Sequence[float],
        short: Sequence[float] | None = None,
        factor: float | None = None,
        original: int | None = None,
    ) -> None:
        super().__init__(factor, original)
        self.long, self.short = tuple(long), tuple(short) if short is not None else None
        if min(self.long + (self.short or ())) <= 0:
            raise ValueError("scaling.long and scaling.short divide frequencies: give numbers above 0.")

    def fit(self, pairs: int) -> None:
        for name, factors in (("long", self.long), ("short", self.short)):
            if factors is not None and len(factors) != pairs:
                raise ValueError(
                    f"scaling.{name} has {len(factors)} numbers, this encoding {pairs} pairs on an axis: "
                    "give one for each pair."
                )

    def frequencies(self, frequency: Tensor, theta: float, extent: int, trained: int) -> Tensor:
        divisors = (self.long, self.short or (1.0,) * len(self.long))
        long, short = (torch.tensor(x, dtype=torch.float64, device=frequency.device) for x in divisors)
        beyond = torch.full((), extent, device=frequency.device) > (self.original or trained)  # one graph for both
        return frequency / torch.where(beyond, long, short)

    def magnitude(self, extent: int, trained: int) -> float:
        s, original = self.stretch(extent, trained), self.original or trained
        if original < 2:
            raise ValueError(
                "longrope grows by ln(s) / ln(L0), and one position has no logarithm: set scaling.original."
            )
        return math.sqrt(1 + log(s) / math.log(original))
