"""Does a model that was trained on short problems solve longer ones?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.text import IGNORE
from ..positions import NotDefined
from .base import WHOLE, Evaluation, Evaluator, Measurement, Metric, Part, Size


class Recall(Evaluator):
    """Problems of one length at a time, the same for every encoding, and whether the whole answer is right.

    A problem counts as solved where every token of its answer is the likeliest one after the right
    tokens before it, which is what greedy decoding writes. Token accuracy and loss (nats) are over the
    tokens of all answers. `chance` is the share that even guessing solves: it tells what little is.

    Args:
        sizes: lengths in the unit of the task: symbols, digits, pairs.
        ratios: of the longest length in training.
        count: problems of each length.
    """

    name = "recall"
    question = "Problems of other lengths"
    axis = "problem length"
    logarithmic = True
    metrics = {
        "exact_match": Metric("whole answers right, %", higher_is_better=True, percent=True),
        "accuracy": Metric("token accuracy, %", higher_is_better=True, percent=True),
        "loss": Metric("loss, nats per token", higher_is_better=False),
    }
    chances = {"exact_match": "chance"}
    mark = "longest in training"

    def __init__(
        self, sizes: Any = None, ratios: Sequence[float] = (), count: int = 1000, batch_size: int = 250
    ) -> None:
        super().__init__(sizes, ratios, batch_size)
        self.check_counts(count=count)
        self.count = count

    def suits(self, data: Any) -> bool:
        return data.kind == "text" and not data.dense

    def trained(self, data: Any) -> Size:
        return (data.length,)

    def protocol(self, data: Any) -> str:
        return f"{data.rule}, {self.count:,} problems of each length in {data.unit}"

    def clusters(self, data: Any) -> str:
        return "problems"

    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        (length,) = size
        try:
            problems = data.at(length, self.count)
        except ValueError as error:
            raise NotDefined(str(error)) from error
        scored = problems[torch.tensor([0])]["targets"][0] != IGNORE
        last = len(scored) - int(scored.int().argmax())  # no logits for the question
        with Evaluation(model) as device:

            def answers(index: Tensor) -> dict[str, Tensor]:
                batch = problems[index]
                targets = batch["targets"][:, -last:].to(device)
                logits = model(batch["inputs"].to(device), last=last).float()
                nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=IGNORE)
                right = logits.argmax(-1) == targets
                return {
                    "exact_match": (right | (targets == IGNORE)).all(dim=1),
                    "accuracy": right.sum(dim=1),
                    "loss": nll.view_as(targets).double().sum(dim=1),
                }

            index = part.of(self.count)
            totals = self.read(index, self.batch(size, self.trained(data)), answers)
        one = np.ones(len(index))
        totals["chance"] = data.chance(length) * one
        tokens = float(scored.sum()) * one
        return Measurement(totals, one, index.numpy(), {"accuracy": tokens, "loss": tokens})
