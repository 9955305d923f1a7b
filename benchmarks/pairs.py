"""Two contestants by turns in one process, and what their pairs say.

Absolute times mean little on a machine that does something else as well. What disturbs one run of a pair
mostly disturbs the other, so that the ratio of the two is steadier than either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

Contestant = Callable[[], float]  # does its work once and returns the seconds that it took

FEWEST = 4  # pairs: of three, all lie below the median of all pairs in more than a tenth of the cases
WARM_UP = 5


@dataclass(frozen=True)
class Comparison:
    """One line of a table: how many times theirs ours is, or by how much ours is more.

    The goal is met where `high`, the upper 90 % bound of the median, is at or under it. What was counted and
    not timed has no pairs, and bounds that are the value.
    """

    case: str
    against: str
    median: float
    low: float
    high: float
    pairs: int = 0
    unit: str = ""  # of the median; none: a ratio
    goal: float | None = None
    ours: float | None = None  # median seconds of a run
    theirs: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.high <= self.goal

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


def by_turns(ours: Contestant, theirs: Contestant, pairs: int, warm_up: int = WARM_UP) -> np.ndarray:
    """(pairs, 2) seconds: ours, theirs, ours, theirs, ... after `warm_up` pairs that are not kept."""
    seconds = [(ours(), theirs()) for _ in range(warm_up + pairs)]
    return np.array(seconds[warm_up:])


def median_bounds(values: np.ndarray, confidence: float = 0.9) -> tuple[float, float, float]:
    """Median of values (N,), and bounds that the true median is above, below, each with this confidence.

    Order statistics, whatever the distribution: the number of values under the true median is binomial with
    p = 1/2 (David & Nagaraja 2003, section 7.1). Of 30 values the 11th and the 20th.
    Raises ValueError where so few values bound nothing.
    """
    count = len(values)
    if count < FEWEST:
        raise ValueError(f"{count} pairs bound no median with a confidence of 90 %: take {FEWEST} or more.")
    ordered = np.sort(values)
    high = int(binom.ppf(confidence, count, 0.5))
    return float(np.median(values)), float(ordered[count - 1 - high]), float(ordered[high])


def ratio(
    case: str, against: str, ours: Contestant, theirs: Contestant, pairs: int,
    goal: float | None = None, warm_up: int = WARM_UP,
) -> Comparison:  # fmt: skip
    """The median of ours / theirs over pairs."""
    seconds = by_turns(ours, theirs, pairs, warm_up)
    bounds = median_bounds(seconds[:, 0] / seconds[:, 1])
    return Comparison(case, against, *bounds, pairs, "", goal, *map(float, np.median(seconds, axis=0)))


def difference(
    case: str, against: str, ours: Contestant, theirs: Contestant, pairs: int, unit: str,
    goal: float | None = None, warm_up: int = WARM_UP,
) -> Comparison:  # fmt: skip
    """The median of ours - theirs over pairs, in `unit`, s or ms."""
    seconds = by_turns(ours, theirs, pairs, warm_up)
    bounds = median_bounds((seconds[:, 0] - seconds[:, 1]) * {"s": 1, "ms": 1000}[unit])
    return Comparison(case, against, *bounds, pairs, unit, goal, *map(float, np.median(seconds, axis=0)))


def counted(case: str, against: str, value: float, goal: float | None = None, unit: str = "") -> Comparison:
    """What is the same in every run."""
    return Comparison(case, against, value, value, value, unit=unit, goal=goal)


def exponent(sizes: np.ndarray, values: np.ndarray) -> float:
    """p of values ~ size^p: the slope of a line through their logarithms; nan for values that are not positive."""
    if np.min(values) <= 0:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
