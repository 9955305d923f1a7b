"""How does a model read images of other resolutions than it was trained on?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..positions import NotDefined
from .base import Evaluation, Evaluator, Measurement, Metric, Size


class Resolution(Evaluator):
    """The same test images at every size, resized by the data set's own `prepare`.

    Top-1 accuracy and cross-entropy in nats. The patch stays as it is, so another size is another
    grid of patches; one that the patch does not divide is not defined.
    """

    name = "resolution"
    question = "Images at other resolutions"
    axis = "image size, pixels"
    logarithmic = False
    metrics = {
        "accuracy": Metric("top-1 accuracy, %", higher_is_better=True, percent=True),
        "loss": Metric("loss, nats", higher_is_better=False),
    }

    def trained(self, data: Any) -> Size:
        return tuple(data.size)

    def protocol(self, data: Any) -> str:
        return f"all {len(data.test):,} test images, {data.preprocessing}"

    def clusters(self, data: Any) -> str:
        return "images"

    def measure(self, model: nn.Module, data: Any, size: Size) -> Measurement:
        try:
            model.grid_of(*size)  # type: ignore[operator]
        except ValueError as error:
            raise NotDefined(str(error)) from error
        loss, correct = [], []
        with Evaluation(model) as device:
            for index in torch.arange(len(data.test)).split(self.batch(size, self.trained(data))):
                batch = data.test[index]
                labels = batch["labels"].to(device)
                logits = model(data.prepare(batch["images"].to(device), size)).float()
                loss.append(F.cross_entropy(logits, labels, reduction="none").cpu())
                correct.append((logits.argmax(-1) == labels).cpu())
        samples = len(data.test)
        totals = {"accuracy": torch.cat(correct).double().numpy(), "loss": torch.cat(loss).double().numpy()}
        return Measurement(totals, np.ones(samples), np.arange(samples))
