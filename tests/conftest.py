"""What all tests share: one thread, and the same seed for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)  # models are tiny: more threads only wait for each other
    # tiny extents on purpose: t5 is right to warn, and has a test of the warning
    config.addinivalue_line("filterwarnings", "ignore:t5.*max_distance")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test starts from the same random numbers, whatever ran before."""
    torch.manual_seed(0)
    yield
