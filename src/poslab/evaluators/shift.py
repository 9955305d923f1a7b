"""Does a model give the same answer when its input is moved?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import NotDefined
from .base import WHOLE, Evaluation, Evaluator, Measurement, Metric, Part, Size
from .pictures import chosen, counted


class Shift(Evaluator):
    """Images translated on a black ground, texts behind padding. A size is the displacement.

    Images are moved by the size up, down, left and right at the trained size, and the four are averaged:
    what leaves is lost. Texts are the same windows behind as many separators, which end documents in
    training; the second half of each window is scored, so that some text stands in front of every target.

    Consistency is the share of answers (argmax) that are those of the unmoved input, right or wrong.

    What to expect. Of an image moved by whole patches, the patches that stay are the same, and only a
    shift-invariant encoding gives them the same scores; lost content and the black that came in still
    count. Other displacements cut the patches differently, which no encoding undoes. In a text nothing
    is lost, but the separators can be attended to and say that a document has just begun: even under a
    shift-invariant encoding consistency stays below 1, and what an encoding adds to that is the
    difference between encodings.

    Args:
        sizes: displacements in pixels or tokens, 0 included always.
        ratios: factors of a patch (its rows), or of the trained length.
        length: tokens of a window; None: half of the trained length, which leaves a learned table room.
        count: windows.
        images: test images, spread evenly over the split; None: all.
    """

    name = "shift"
    question = "The same input, moved"
    axis = "displacement, pixels or tokens"
    logarithmic = False
    metrics = {
        "consistency": Metric("same answer as unmoved, %", higher_is_better=True, percent=True),
        "accuracy": Metric("accuracy, %", higher_is_better=True, percent=True),
        "loss": Metric("loss, nats", higher_is_better=False),
    }
    mark = "unmoved"
    least = 0

    def __init__(
        self,
        sizes: Any = None,
        ratios: Sequence[float] = (),
        length: int | None = None,
        count: int = 250,
        images: int | None = None,
        batch_size: int = 250,
    ) -> None:
        super().__init__(sizes, ratios, batch_size)
        if length is not None and length < 2:
            raise ValueError(f"evaluate.shift.length={length}: half of a window is scored, use 2 or more.")
        self.check_counts(count=count, images=images)
        self.length, self.count, self.images = length, count, images

    def suits(self, data: Any) -> bool:
        return data.kind == "image" or getattr(data, "separator", None) is not None

    def reference(self, data: Any) -> Size:
        return (0,)

    def ranked(self, data: Any, sizes: Sequence[Size]) -> Size:
        """The shortest displacement, where all encodings have an answer and not all the same."""
        return next((size for size in sizes if size != (0,)), (0,))

    def ratio(self, data: Any, size: Size) -> float:
        return size[0] / math.prod(self.trained(data)) ** (1 / len(self.trained(data)))

    def sizes(self, data: Any, step: Size | None = None) -> list[Size]:
        if self.asked is not None:
            return super().sizes(data)
        unit = (step or (1,))[0] if data.kind == "image" else data.context
        return sorted({(0,), *((max(1, round(ratio * unit)),) for ratio in self.ratios)})

    def window(self, data: Any) -> int:
        return self.length or max(2, data.context // 2)

    def protocol(self, data: Any) -> str:
        if data.kind == "image":
            sides = "x".join(map(str, data.size))
            return (
                f"{counted(data, self.images)} at {sides}, moved up, down, left and right (averaged), "
                f"black where nothing came in; {data.preprocessing}"
            )
        return (
            f"the second half of up to {self.count:,} windows of {self.window(data)} tokens "
            f"behind separators (token {data.separator})"
        )

    def clusters(self, data: Any) -> str:
        return "images" if data.kind == "image" else "documents"

    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        return (self._images if data.kind == "image" else self._texts)(model, data, size[0], part)

    def _images(self, model: nn.Module, data: Any, by: int, part: Part) -> Measurement:
        if by >= min(data.size):
            raise NotDefined(f"Moved by {by} pixels, nothing is left of an image of {min(data.size)}.")
        moves = [(-by, 0), (by, 0), (0, -by), (0, by)] if by else [(0, 0)]
        with Evaluation(model) as device:

            def answers(index: Tensor) -> dict[str, Tensor]:
                batch = data.test[index]
                images, labels = data.prepare(batch["images"].to(device)), batch["labels"].to(device)
                unmoved = model(images).argmax(-1)
                moved = [score(model(translate(images, *move, data.background(device))), labels) for move in moves]
                answer, right, loss = (torch.stack(each) for each in zip(*moved, strict=True))
                means = {"consistency": answer == unmoved, "accuracy": right, "loss": loss}
                return {name: each.double().mean(0) for name, each in means.items()}

            index = chosen(data, self.images)
            index = index[part.of(len(index))]
            totals = self.read(index, self.batch_size, answers)
        return Measurement(totals, np.ones(len(index)), index.numpy())

    def _texts(self, model: nn.Module, data: Any, by: int, part: Part) -> Measurement:
        length = self.window(data)
        last = length - length // 2
        try:
            windows = data.windows(length, length, last, self.count)
        except ValueError as error:
            raise NotDefined(str(error)) from error
        with Evaluation(model) as device:

            def answers(index: Tensor) -> dict[str, Tensor]:
                inputs, targets = windows.inputs[index].to(device), windows.targets[index, -last:].to(device)
                unmoved = model(inputs, last=last).argmax(-1)
                logits = model(F.pad(inputs, (by, 0), value=data.separator), last=last)
                answer, right, loss = score(logits, targets)
                sums = {"consistency": answer == unmoved, "accuracy": right, "loss": loss}
                return {name: each.double().sum(1) for name, each in sums.items()}

            index = part.of(len(windows))
            totals = self.read(index, self.batch((length + by,), self.trained(data)), answers)
        tokens = last * np.ones(len(index))
        return Measurement(totals, tokens, windows.document[index].numpy())


def translate(images: Tensor, down: int, right: int, background: Tensor) -> Tensor:
    """`images` (B, channels, height, width) moved by whole pixels, `background` (channels, 1, 1) where nothing was.

    Negative numbers move up and to the left.
    """
    moved = background.expand_as(images).clone()
    (rows, their_rows), (columns, their_columns) = (
        (slice(max(by, 0), side + min(by, 0)), slice(max(-by, 0), side - max(by, 0)))
        for by, side in zip((down, right), images.shape[-2:], strict=True)
    )
    moved[..., rows, columns] = images[..., their_rows, their_columns]
    return moved


def score(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The answer, whether it is right, and its loss in nats, each as `targets`, of `logits` (*targets, classes)."""
    logits = logits.float()
    loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none").view_as(targets)
    answer = logits.argmax(-1)
    return answer, answer == targets, loss
