"""How does a model read longer texts than it was trained on?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..data.text import IGNORE
from ..positions import NotDefined
from .base import WHOLE, Evaluation, Measurement, Part, Size
from .texts import LongText


class Length(LongText):
    """The same target tokens at every length: only the context in front of them grows.

    Args:
        history: the longest context, which decides the targets; None is the longest size.
        targets: tokens that are scored at the end of each window.
        count: windows.
    """

    name = "length"
    question = "Texts of other lengths"
    axis = "length, tokens"

    def __init__(
        self,
        sizes: Any = None,
        ratios: Sequence[float] = (),
        history: int | None = None,
        targets: int = 32,
        count: int = 1000,
        batch_size: int = 250,
    ) -> None:
        super().__init__(sizes, ratios, history, count, batch_size)
        self.check_counts(targets=targets)
        self.targets = targets

    def protocol(self, data: Any) -> str:
        history = self.longest(data)
        try:
            words = data.windows(history, history, self.targets, 1).protocol
        except ValueError:  # no document is so long, which each size says for itself
            words = f"{self.targets} targets, history {history}"
        return f"{words}, at most {self.count:,} windows"

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
        totals |= self.bits(totals, data)
        tokens = (windows.targets[index] != IGNORE).sum(1)
        return Measurement(totals, tokens.double().numpy(), windows.document[index].numpy())
