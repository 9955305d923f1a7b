"""How does a model read longer texts than it was trained on?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..data.text import IGNORE
from ..positions import NotDefined
from .base import WHOLE, Evaluation, Evaluator, Measurement, Metric, Part, Size


class Length(Evaluator):
    """The same target tokens at every length: only the context in front of them grows.

    Loss in nats a token, as the sum over all scored tokens; bits a byte where the data knows its bytes.

    Args:
        history: the longest context, which decides the targets; None is the longest size.
        targets: tokens that are scored at the end of each window.
        count: windows.
    """

    name = "length"
    question = "Texts of other lengths"
    axis = "length, tokens"
    logarithmic = True
    metrics = {
        "loss": Metric("loss, nats per token", higher_is_better=False),
        "bits_per_byte": Metric("bits per byte", higher_is_better=False),
    }

    def __init__(
        self,
        sizes: Any = None,
        ratios: Sequence[float] = (),
        history: int | None = None,
        targets: int = 32,
        count: int = 1000,
        batch_size: int = 250,
    ) -> None:
        super().__init__(sizes, ratios, batch_size)
        for name, value in {"history": history, "targets": targets, "count": count}.items():
            if value is not None and value < 1:
                raise ValueError(f"evaluate.length.{name}={value} counts something: use 1 or more.")
        self.history, self.targets, self.count = history, targets, count

    def suits(self, data: Any) -> bool:
        return data.kind == "text" and data.dense

    def trained(self, data: Any) -> Size:
        return (data.context,)

    def longest(self, data: Any) -> int:
        """The context that decides which tokens are scored."""
        return self.history or self.sizes(data)[-1][0]

    def protocol(self, data: Any) -> str:
        history = self.longest(data)
        try:
            words = data.windows(history, history, self.targets, 1).protocol
        except ValueError:  # no document is so long, which each size says for itself
            words = f"{self.targets} targets, history {history}"
        return f"{words}, at most {self.count:,} windows"

    def clusters(self, data: Any) -> str:
        return "documents"

    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        (length,) = size
        history = self.longest(data)
        if not self.targets <= length <= history:
            fix = f"targets={length}" if length < self.targets else f"history={length}"
            raise NotDefined(
                f"{self.targets} targets and a history of {history} tokens leave no window of {length}: "
                f"use evaluate.length.{fix}, for all sizes."
            )
        try:
            windows = data.windows(length, history, self.targets, self.count)
        except ValueError as error:
            raise NotDefined(str(error)) from error
        scored = (windows.targets != IGNORE).any(dim=0)
        last = length - int(scored.int().argmax())  # no logits for the tokens in front of all targets
        with Evaluation(model) as device:

            def answers(index: Tensor) -> dict[str, Tensor]:
                targets = windows.targets[index, -last:].to(device)
                logits = model(windows.inputs[index].to(device), last=last).float()
                nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=IGNORE)
                return {"loss": nll.view_as(targets).double().sum(1)}

            index = part.of(len(windows))
            totals = self.read(index, self.batch(size, self.trained(data)), answers)
        if data.bytes_per_token:
            totals["bits_per_byte"] = totals["loss"] / (math.log(2) * data.bytes_per_token)
        tokens = (windows.targets[index] != IGNORE).sum(1)
        return Measurement(totals, tokens.double().numpy(), windows.document[index].numpy())
