"""How does a model read long texts in blocks that do not overlap, and where in a block does it read well?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import NotDefined
from .base import WHOLE, Evaluation, Measurement, Part, Size
from .texts import LongText


class Blocks(LongText):
    """Every token of long pieces of text is scored, in blocks of the size that do not overlap.

    Press, Smith & Lewis 2022, appendix B. The first tokens of a block have little context whatever the
    encoding, so the loss falls with the size even where nothing extrapolates: the loss by position shows
    which it is. Its buckets double: positions 0, 1, 2-3, 4-7, ...

    Args:
        history: tokens that are cut into blocks at once, the same text for every size that divides
            it; None is the longest size.
        count: such pieces at most, spread over the test documents.
    """

    name = "blocks"
    question = "Texts in blocks that do not overlap"
    axis = "block, tokens"
    profiles = {"loss": "position in the block, tokens"}

    def __init__(
        self,
        sizes: Any = None,
        ratios: Sequence[float] = (),
        history: int | None = None,
        count: int = 64,
        batch_size: int = 250,
    ) -> None:
        super().__init__(sizes, ratios, history, count, batch_size)

    def protocol(self, data: Any) -> str:
        return (
            f"every {data.unit} of up to {self.count:,} pieces of {self.longest(data)}, in blocks that do not overlap"
        )

    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        (length,) = size
        history = self.longest(data)
        if length > history:
            raise NotDefined(f"A piece of {history} tokens holds no block of {length}: use evaluate.blocks.history.")
        try:
            blocks = data.blocks(length, history, self.count)
        except ValueError as error:
            raise NotDefined(str(error)) from error
        buckets = position_buckets(length)
        with Evaluation(model) as device:

            def answers(index: Tensor) -> dict[str, Tensor]:
                targets = blocks.targets[index].to(device)
                logits = model(blocks.inputs[index].to(device)).float()
                nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
                nll = nll.double()
                by_position = {f"loss@{name}": nll[:, first:last].sum(1) for name, first, last in buckets}
                return {"loss": nll.sum(1), **by_position}

            index = part.of(len(blocks))
            totals = self.read(index, self.batch(size, self.trained(data)), answers)
        totals |= self.bits(totals, data)
        one = np.ones(len(index))
        tokens = {f"loss@{name}": (last - first) * one for name, first, last in buckets}
        return Measurement(totals, length * one, blocks.document[index].numpy(), tokens)


def position_buckets(length: int) -> list[tuple[str, int, int]]:
    """(name, first, one past the last) of the positions 0 ... length - 1 in buckets that double."""
    edges = [0, *(2**k for k in range(length.bit_length()) if 2**k < length), length]
    return [(str(a) if b == a + 1 else f"{a}-{b - 1}", a, b) for a, b in pairwise(edges)]
