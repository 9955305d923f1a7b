"""How does a model read images of other resolutions than it was trained on?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import NotDefined
from .base import WHOLE, Evaluation, Evaluator, Measurement, Metric, Part, Size
from .pictures import chosen, counted


class Resolution(Evaluator):
    """The same test images at every size, read from their files at it or resized by the data set's own `prepare`.

    Top-1 and top-5 accuracy and cross-entropy in nats. The patch stays as it is, so another size is another
    grid of patches; one that the patch does not divide is not defined.

    Args:
        images: test images, spread evenly over the split; None: all.
    """

    name = "resolution"
    question = "Images at other resolutions"
    axis = "image size, pixels"
    logarithmic = False
    metrics = {
        "accuracy": Metric("top-1 accuracy, %", higher_is_better=True, percent=True),
        "top5": Metric("top-5 accuracy, %", higher_is_better=True, percent=True),
        "loss": Metric("loss, nats", higher_is_better=False),
    }

    def __init__(
        self, sizes: Any = None, ratios: Sequence[float] = (), images: int | None = None, batch_size: int = 250
    ) -> None:
        super().__init__(sizes, ratios, batch_size)
        self.check_counts(images=images)
        self.images = images

    def suits(self, data: Any) -> bool:
        return data.kind == "image"

    def protocol(self, data: Any) -> str:
        return f"{counted(data, self.images)}, {data.preprocessing}"

    def clusters(self, data: Any) -> str:
        return "images"

    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        check_grid(model, size)
        images = data.test.at(size)
        with Evaluation(model) as device:

            def answers(index: Tensor) -> dict[str, Tensor]:
                batch = images[index]
                labels = batch["labels"].to(device)
                logits = model(data.prepare(batch["images"].to(device), size)).float()
                best = logits.topk(min(5, logits.shape[-1])).indices == labels[:, None]
                loss = F.cross_entropy(logits, labels, reduction="none")
                return {"accuracy": best[:, 0], "top5": best.any(1), "loss": loss}

            index = chosen(data, self.images)
            index = index[part.of(len(index))]
            totals = self.read(index, self.batch(size, self.trained(data)), answers)
        if data.classes <= 5:
            del totals["top5"]  # always right
        return Measurement(totals, np.ones(len(index)), index.numpy())


def check_grid(model: nn.Module, size: Size) -> None:
    """NotDefined where the patches do not tile an image of `size` pixels."""
    try:
        model.grid_of(*size)  # type: ignore[operator]
    except ValueError as error:
        raise NotDefined(str(error)) from error
