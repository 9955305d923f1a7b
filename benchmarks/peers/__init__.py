"""Other people's models, built as nearly like ours as their options allow: the same maps, norms and activation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Peer:
    """A model to be compared with, and what ours must be told to be the same model.

    Args:
        word: our encoding. overrides: of our configuration. build: their model of a shape.
        positions: parts of the names of their parameters that belong to the encoding; all others are as many as ours.
        goal: for our step over theirs.
    """

    name: str
    word: str
    build: Callable[[Any], nn.Module]
    positions: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    goal: float | None = None


class Logits(nn.Module):
    """The logits alone, of a model that returns more."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens).logits
