"""Image classification."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .base import Task


class Classification(Task):
    """Cross-entropy over the classes, with label smoothing in training only. Metrics: loss (nats), accuracy."""

    def __init__(self, *args: Any, label_smoothing: float = 0.0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.label_smoothing = label_smoothing

    def augmented(self, batch: dict[str, Tensor], batch_idx: int) -> dict[str, Tensor]:
        return self.data.augmented(batch, self.training_order.chance(batch_idx))  # type: ignore[no-any-return]

    def sums(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        images, labels, weight = batch["images"], batch["labels"], batch["weight"]
        if images.dtype == torch.uint8:
            images = self.data.prepare(images)
        logits = self.model(images).float()
        targets = batch.get("targets", labels)  # probabilities where training mixed images
        nll = F.cross_entropy(logits, targets, reduction="none")
        loss = nll
        if self.training and self.label_smoothing:
            loss = F.cross_entropy(logits, targets, reduction="none", label_smoothing=self.label_smoothing)
        correct = (logits.detach().argmax(-1) == labels) & weight
        return {
            "loss": (loss * weight).sum(),
            "nll": (nll * weight).sum().detach(),
            "correct": correct.sum(),
            "count": weight.sum(),
        }

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        return {"loss": sums["nll"] / sums["count"], "accuracy": sums["correct"] / sums["count"]}
