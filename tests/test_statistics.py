"""Intervals that mean what they say, and no digit more than they allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from poslab.evaluators.statistics import (
    bootstrap_interval,
    format_deviation,
    format_interval,
    mean_and_deviation,
    unanimous_interval,
)


def test_bootstrap_covers() -> None:
    """95 % intervals for a mean hold the true one about 95 times in 100."""
    generator = np.random.default_rng(1)
    draws = generator.exponential(1.0, (300, 80))
    intervals = [bootstrap_interval(x, np.ones(80), np.arange(80), 500) for x in draws]
    covered = np.mean([low <= 1.0 <= high for low, high in intervals])
    assert 0.90 <= covered <= 0.98
    width = np.mean([high - low for low, high in intervals])
    assert width == pytest.approx(2 * 1.96 / math.sqrt(80), rel=0.1)


def test_bootstrap_is_of_a_ratio() -> None:
    """Heavy samples weigh more: the interval is around sum / sum."""
    generator = np.random.default_rng(2)
    weight = np.repeat([1.0, 9.0], 200)
    total = np.repeat([1.0, 0.0], 200) + generator.normal(0, 0.01, 400)
    low, high = bootstrap_interval(total, weight, np.arange(400))
    assert low < total.sum() / weight.sum() < high < 0.2


def test_clusters_matter() -> None:
    """Four copies of each document are no more evidence than one."""
    x = np.random.default_rng(3).normal(size=50)
    once = bootstrap_interval(x, np.ones(50), np.arange(50))
    copies, ones = np.repeat(x, 4), np.ones(200)
    assert bootstrap_interval(copies, ones, np.repeat(np.arange(50), 4)) == pytest.approx(once)
    low, high = bootstrap_interval(copies, ones, np.arange(200))
    assert (once[1] - once[0]) / (high - low) == pytest.approx(2, rel=0.15)
    assert all(map(math.isnan, bootstrap_interval(x, np.ones(50), np.zeros(50))))  # one document: no idea


def test_all_right_is_not_certainty() -> None:
    low, high = unanimous_interval(1.0, 500)
    assert high == 1 and low == pytest.approx(0.99265, abs=1e-5)
    assert unanimous_interval(0.0, 500) == pytest.approx((0, 1 - low))
    # a share of `low` gives 500 of 500 in 2.5 of 100 draws
    assert low**500 == pytest.approx(0.025)


def test_seeds() -> None:
    assert mean_and_deviation([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert math.isnan(mean_and_deviation([1.0])[1])
    assert math.isnan(mean_and_deviation([1.0, math.nan])[0])


def test_digits_that_the_interval_swallows_are_not_printed() -> None:
    nan = math.nan
    cases = {
        (0.98412, 0.975, 0.991, True): "98.4 [97.5, 99.1]",
        (0.98412, 0.9838, 0.9844, True): "98.41 [98.38, 98.44]",
        (0.5, 0.38, 0.62, True): "50 [38, 62]",
        (1.0, 1.0, 1.0, True): "100.0 [100.0, 100.0]",
        (0.0, 0.0, 0.003, True): "0.00 [0.00, 0.30]",
        (0.98412, nan, nan, True): "98.4",
        (2.3456, 2.31, 2.38, False): "2.346 [2.310, 2.380]",
        (2.3456, 2.29, 2.40, False): "2.35 [2.29, 2.40]",
        (2.3456, 1.0, 3.9, False): "2.3 [1.0, 3.9]",
        (2.3456, 2.345599, 2.345601, False): "2.3456 [2.3456, 2.3456]",
        (2.3456, 2.3456, 2.3456, False): "2.346 [2.346, 2.346]",
        (140.2, 90.1, 190.7, False): "140 [90, 191]",
        (nan, nan, nan, False): "nan",
        (math.inf, nan, nan, False): "inf",
    }
    assert {case: format_interval(*case) for case in cases} == cases
    assert format_deviation(0.98412, 0.0031, True) == "98.41 ± 0.31"
    assert format_deviation(0.98412, 0.0096, True) == "98.4 ± 1.0"
    assert format_deviation(2.3456, 0.0, False) == "2.346 ± 0.000"
    assert format_deviation(2.3456, nan, False) == "2.346"
