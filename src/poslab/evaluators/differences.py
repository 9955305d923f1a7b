"""Is one encoding better than another, by how much, and how sure is that?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from .base import Measurement
from .statistics import ELEMENTS


@dataclass(frozen=True)
class Difference:
    """A metric of some runs minus that of the baseline's, with its interval.

    `p` is the chance of a difference at least as large where there is none; `corrected` the same,
    corrected for the number of encodings that were compared.
    """

    value: float
    low: float
    high: float
    p: float
    corrected: float = math.nan
    separable: bool = False


def difference(
    ours: Sequence[Measurement],
    theirs: Sequence[Measurement],
    metric: str,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Mean over our runs (seeds) minus mean over theirs, all measured on the same samples.

    A hierarchical bootstrap (Davison & Hinkley 1997, section 3.8): runs are drawn on each side, then
    clusters of samples, the same ones for every run, so that what is hard for all cancels. Few runs
    drawn with replacement vary too little, by sqrt((n - 1) / n); their deviations are stretched by as
    much. Interval and p are Student's t on the bootstrap's standard error, with the degrees of freedom
    of Satterthwaite 1946: three seeds are three seeds, however many images they were tested on. A
    side with a single run borrows the spread between runs from the other; where both have one,
    only the samples vary, and the answer is about these two trained models.

    Raises ValueError where the samples are not the same.
    """
    first = ours[0]
    for each in (*ours, *theirs):
        if not np.array_equal(each.clusters, first.clusters):
            raise ValueError("A paired difference needs the same samples in the same order.")
    _, member = np.unique(first.clusters, return_inverse=True)
    clusters = int(member.max()) + 1
    sides = [_by_cluster(side, metric, member) for side in (ours, theirs)]
    exact = [totals.sum(1) / weights.sum(1) for totals, weights in sides]  # (runs,) each
    value = float(exact[0].mean() - exact[1].mean())
    if clusters < 2 or resamples < 2:
        return Difference(value, math.nan, math.nan, math.nan)

    generator = np.random.default_rng(seed)
    fixed, drawn = [], []  # with the runs as they are, and with runs drawn too
    rows = max(1, ELEMENTS // clusters)
    for start in range(0, resamples, rows):
        counts = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=min(rows, resamples - start))
        values = [(counts @ totals.T) / (counts @ weights.T) for totals, weights in sides]  # (rows, runs) each
        fixed.append(values[0].mean(1) - values[1].mean(1))
        means = [_means_of_drawn_runs(each, generator) for each in values]
        drawn.append(means[0] - means[1])
    samples = float(np.var(np.concatenate(fixed)))
    between = [float(np.var(each, ddof=1)) if len(each) > 1 else math.nan for each in exact]
    total = float(np.var(np.concatenate(drawn)))
    parts = [(samples, clusters - 1)]
    for own, other, runs, others in zip(between, between[::-1], map(len, exact), map(len, exact[::-1]), strict=True):
        if runs > 1:
            parts.append((own / runs, runs - 1))
        elif others > 1:
            parts.append((other, others - 1))
            total += other
    if total == 0:
        return Difference(value, value, value, float(value == 0))
    freedom = sum(part for part, _ in parts) ** 2 / sum(part**2 / each for part, each in parts)
    error = math.sqrt(total)
    reach = float(student.ppf((1 + confidence) / 2, freedom)) * error
    return Difference(value, value - reach, value + reach, float(2 * student.sf(abs(value) / error, freedom)))


def _by_cluster(runs: Sequence[Measurement], metric: str, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Totals and weights (runs, clusters)."""
    totals = np.stack([np.bincount(member, each.totals[metric]) for each in runs])
    return totals, np.stack([np.bincount(member, each.weight(metric)) for each in runs])


def _means_of_drawn_runs(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(rows,) means of runs drawn with replacement, a draw a row, out of values (rows, runs)."""
    rows, runs = values.shape
    everyone = values.mean(1)
    if runs == 1:
        return everyone
    chosen = np.take_along_axis(values, generator.integers(runs, size=(rows, runs)), axis=1).mean(1)
    return everyone + (chosen - everyone) * math.sqrt(runs / (runs - 1))


def corrected(differences: Mapping[str, Difference], confidence: float = 0.95) -> dict[str, Difference]:
    """The differences of several encodings from one baseline, with p corrected for their number. Holm 1979.

    `separable` says whether the corrected p is below 1 - confidence.
    """
    ordered = sorted(differences, key=lambda name: differences[name].p)
    found: dict[str, Difference] = {}
    least = 0.0
    for done, name in enumerate(ordered):
        each = differences[name]
        if math.isnan(each.p):
            found[name] = each
            continue
        least = max(least, min(1.0, (len(ordered) - done) * each.p))
        found[name] = replace(each, corrected=least, separable=least < 1 - confidence)
    return {name: found[name] for name in differences}
