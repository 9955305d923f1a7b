"""Which images of a test split are looked at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..data.text import spread


def chosen(data: Any, images: int | None) -> Tensor:
    """Indices of at most `images` test images, spread evenly over the split; None: of all."""
    count = len(data.test)
    return torch.tensor(spread(range(count), count if images is None else images))


def counted(data: Any, images: int | None) -> str:
    """ "all 10,000 test images" """
    looked_at, count = len(chosen(data, images)), len(data.test)
    return f"all {count:,} test images" if looked_at == count else f"{looked_at:,} of {count:,} test images"
