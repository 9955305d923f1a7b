"""Next-token prediction."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ..data.text import IGNORE
from .base import Task


class LanguageModelling(Task):
    """Cross-entropy of the token after each token, ignored targets apart.

    Metrics: loss (nats a token), accuracy of the likeliest token, bits a byte where bytes are known.
    """

    def __init__(self, *args: Any, label_smoothing: float = 0.0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.label_smoothing = label_smoothing

    def sums(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        targets = batch["targets"].flatten()
        logits = self.model(batch["inputs"]).float().flatten(0, 1)
        nll = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
        loss = nll
        if self.training and self.label_smoothing:
            loss = F.cross_entropy(
                logits, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=self.label_smoothing
            )
        sums = {"loss": loss, "nll": nll.detach(), "count": (targets != IGNORE).sum()}
        if not self.training:
            sums["correct"] = (logits.argmax(-1) == targets).sum()
        return sums

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        metrics = {"loss": sums["nll"] / sums["count"], "accuracy": sums["correct"] / sums["count"]}
        if self.data.bytes_per_token is not None:
            metrics["bits_per_byte"] = metrics["loss"] / math.log(2) / self.data.bytes_per_token
        return metrics
