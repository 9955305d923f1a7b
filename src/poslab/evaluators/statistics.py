"""How sure a number is: intervals over samples, deviations over seeds, and the digits that either leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

ELEMENTS = 4_000_000  # resampled numbers held at once


def bootstrap_interval(
    total: np.ndarray,
    weight: np.ndarray,
    cluster: np.ndarray,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of sum(total) / sum(weight) over resampled clusters. Efron & Tibshirani 1993, chapter 13.

    Args:
        total, weight, cluster: (N,) sums of each sample, what they are over, and the group it belongs to.
            Whole clusters are drawn with replacement: tokens of one document are not independent.

    The same seed draws the same clusters, so that two models on the same data are resampled alike.
    Returns (nan, nan) where a single cluster, or no resample, says nothing about the spread.
    """
    _, member = np.unique(cluster, return_inverse=True)
    sums, weights = np.bincount(member, total), np.bincount(member, weight)
    clusters = len(sums)
    if clusters < 2 or resamples < 1:
        return math.nan, math.nan
    generator = np.random.default_rng(seed)
    ratios = []
    rows = max(1, ELEMENTS // clusters)
    for first in range(0, resamples, rows):
        drawn = generator.integers(clusters, size=(min(rows, resamples - first), clusters), dtype=np.int32)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios.append(sums[drawn].sum(1) / weights[drawn].sum(1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(ratios), (tail, 1 - tail))
    return float(low), float(high)


def unanimous_interval(value: float, clusters: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a share that is 0 or 1 in all of `clusters` samples, which no resample can vary.

    The exact binomial one of Clopper & Pearson 1934: of 500 right answers, [.993, 1].
    """
    reach = 1 - ((1 - confidence) / 2) ** (1 / clusters)
    return (0.0, reach) if value == 0 else (1 - reach, 1.0)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (n - 1) of one number a seed; the deviation of one is nan."""
    mean = math.fsum(values) / len(values) if all(map(math.isfinite, values)) else float(np.sum(values) / len(values))
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def decimals_of(uncertainty: float, at_most: int) -> int:
    """Decimals worth printing beside an uncertainty: two of its digits up to .354, else one.

    The rule of the Particle Data Group (Review of Particle Physics, introduction, section 5.3): what
    is left out is never more than a small part of the uncertainty. Without an uncertainty, 0 or nan: `at_most`.
    """
    if not math.isfinite(uncertainty) or uncertainty <= 0:
        return at_most
    exponent = math.floor(math.log10(uncertainty))
    leading = uncertainty / 10**exponent  # 1 <= leading < 10
    digits = 2 if leading < 3.545 else 1
    if leading >= 9.495:  # .96 is printed as 1.0
        exponent, digits = exponent + 1, 2
    return min(max(digits - 1 - exponent, 0), at_most)


def format_interval(value: float, low: float, high: float, percent: bool = False) -> str:
    """`98.4 [97.5, 99.1]`: no digit that the interval swallows. Fractions are printed in percent on request."""
    scale = 100 if percent else 1
    decimals = decimals_of((high - low) / 2 * scale, at_most=2 if percent else 4)
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value * scale:.{1 if percent else 3}f}"
    if low == high:  # every resample agrees, which says little about the last digits
        decimals = 1 if percent else 3
    return f"{value * scale:.{decimals}f} [{low * scale:.{decimals}f}, {high * scale:.{decimals}f}]"


def format_exact(value: float) -> str:
    """`201,802` or `1.5`: what was counted and not estimated."""
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.4g}"


def format_deviation(mean: float, deviation: float, percent: bool = False) -> str:
    """`98.4 ± 0.3`: mean and standard deviation over seeds."""
    scale = 100 if percent else 1
    decimals = decimals_of(deviation * scale, at_most=2 if percent else 4)
    if not math.isfinite(deviation):
        return f"{mean * scale:.{1 if percent else 3}f}"
    if deviation == 0:
        decimals = 1 if percent else 3
    return f"{mean * scale:.{decimals}f} ± {deviation * scale:.{decimals}f}"
