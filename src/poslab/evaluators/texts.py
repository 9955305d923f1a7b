"""What the questions about long texts share: whom they suit, and the text that all sizes read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .base import Evaluator, Metric


class LongText(Evaluator):
    """Loss in nats a token, as the sum over all scored tokens, and bits a byte where the data knows its bytes.

    Args:
        history: tokens that decide what is scored, the same at every size; None is the longest size.
        count: pieces of text.
    """

    logarithmic = True
    metrics: Mapping[str, Metric] = {
        "loss": Metric("loss, nats per token", higher_is_better=False),
        "bits_per_byte": Metric("bits per byte", higher_is_better=False),
    }

    def __init__(self, sizes: Any, ratios: Sequence[float], history: int | None, count: int, batch_size: int) -> None:
        super().__init__(sizes, ratios, batch_size)
        self.check_counts(history=history, count=count)
        self.history, self.count = history, count

    def suits(self, data: Any) -> bool:
        return data.kind == "text" and data.dense

    def longest(self, data: Any) -> int:
        """`history` in tokens."""
        return self.history or self.sizes(data)[-1][0]

    def clusters(self, data: Any) -> str:
        return "documents"

    def bits(self, totals: dict[str, np.ndarray], data: Any) -> dict[str, np.ndarray]:
        """`bits_per_byte` (N,) of the losses in `totals`; {} where bytes mean nothing."""
        return {"bits_per_byte": totals["loss"] / (math.log(2) * data.bytes_per_token)} if data.bytes_per_token else {}
