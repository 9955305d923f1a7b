"""Differences from a baseline: found where they are, and not where they are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from poslab.evaluators.base import Measurement
from poslab.evaluators.differences import Difference, corrected, difference


def runs(
    generator: np.random.Generator, items: np.ndarray, clusters: np.ndarray, count: int, *,
    shift: float = 0.0, between: float = 0.3,
) -> list[Measurement]:  # fmt: skip
    """Losses of `count` seeds on the same items: what is hard for all, what a seed does, and noise."""
    return [
        Measurement(
            {"loss": items + shift + between * generator.normal() + generator.normal(size=len(items))},
            np.ones(len(items)),
            clusters,
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", [(1, 1), (3, 3), (3, 1), (2, 5)], ids=str)
def test_null_and_planted_comparisons(count: tuple[int, int]) -> None:
    """Of 200 comparisons without a difference at most 8 % are called different; a shift of one standard
    deviation of the losses is found in at least 90 %."""
    called, found, covered = 0, 0, 0
    # one run a side knows nothing of other seeds, so the truth is about these two models
    between = 0.0 if count == (1, 1) else 0.1
    for number in range(200):
        generator = np.random.default_rng(number)
        clusters = np.repeat(np.arange(60), 5)
        items = 2 * generator.normal(size=300) + np.repeat(generator.normal(size=60), 5)
        deviation = math.hypot(2, 1, 1, between)
        ours, theirs = (runs(generator, items, clusters, n, between=between) for n in count)
        null = difference(ours, theirs, "loss", resamples=300, seed=number)
        called += corrected({"a": null})["a"].separable
        covered += null.low <= 0 <= null.high
        shifted = runs(generator, items, clusters, count[0], shift=deviation, between=between)
        found += corrected({"a": difference(shifted, theirs, "loss", resamples=300, seed=number)})["a"].separable
    assert called <= 16 and covered == 200 - called
    assert found >= 180


def test_few_seeds_are_few_seeds() -> None:
    """A million samples do not make three seeds sure: the error of a mean of three is what it is."""
    called = 0
    for number in range(200):
        generator = np.random.default_rng(number)
        items, clusters = generator.normal(size=200), np.arange(200)
        ours, theirs = (runs(generator, items, clusters, 3, between=3.0) for _ in range(2))
        called += difference(ours, theirs, "loss", resamples=300, seed=number).p < 0.05
    assert 2 <= called <= 16  # a plain bootstrap calls 45 of the 200


def test_pairing_cancels_what_is_hard_for_all() -> None:
    generator = np.random.default_rng(0)
    items, clusters = 10 * generator.normal(size=500), np.arange(500)
    ours, theirs = (runs(generator, items, clusters, 1, shift=shift, between=0) for shift in (0.5, 0.0))
    found = difference(ours, theirs, "loss")
    assert found.p < 1e-6 and found.high - found.low < 0.3  # unpaired: 2.5
    back = difference(theirs, ours, "loss")
    assert back.value == pytest.approx(-found.value) and back.low == pytest.approx(-found.high, abs=0.01)
    same = difference(ours, ours, "loss")
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)
    other = Measurement(ours[0].totals, ours[0].weights, clusters[::-1])
    with pytest.raises(ValueError, match="same samples"):
        difference(ours, [other], "loss")


def test_sums_over_sums_and_whole_documents() -> None:
    """Windows of unequal token counts weigh by their tokens, and one document is one draw."""
    weights, clusters = np.array([4.0, 2.0, 6.0]), np.array([0, 0, 1])
    ours = Measurement({"loss": np.array([4.0, 8.0, 6.0])}, weights, clusters)
    theirs = Measurement({"loss": np.array([4.0, 2.0, 6.0])}, weights, clusters)
    found = difference([ours], [theirs], "loss")
    assert found.value == pytest.approx(18 / 12 - 1)
    # two documents that differ by 1 and 0: the mean draw is as wide as that allows
    assert found.high - found.low > 4
    alone = Measurement(ours.totals, weights, np.zeros(3, int))
    assert math.isnan(difference([alone], [alone], "loss").low)


def test_p_is_corrected_for_the_number_of_encodings() -> None:
    raw = {name: Difference(1, 0, 2, p) for name, p in {"a": 0.04, "b": 0.01, "c": 0.03, "d": math.nan}.items()}
    found = corrected({name: each for name, each in raw.items() if name != "d"})
    assert [round(found[name].corrected, 3) for name in "abc"] == [0.06, 0.03, 0.06]
    assert [found[name].separable for name in "abc"] == [False, True, False]
    assert not corrected(raw)["d"].separable
