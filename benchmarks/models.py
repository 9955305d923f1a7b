"""The shapes that are compared, and our models of them, built as train.py builds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from poslab.build import build_encodings, build_model
from poslab.cli.configs import Composed, Configs
from poslab.evaluators.cost import random_batch
from poslab.positions import PositionEncoding, Spec


@dataclass(frozen=True)
class Text:
    """A GPT over `vocab` tokens and a batch of random ones."""

    dim: int
    heads: int
    depth: int
    context: int
    batch: int
    vocab: int = 256

    kind: ClassVar[str] = "text"
    causal: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"GPT {self.dim}x{self.depth}, T={self.context}"

    @property
    def tokens(self) -> int:
        return self.context

    @property
    def extent(self) -> tuple[int, ...]:
        return (self.context,)

    @property
    def size(self) -> tuple[int, ...]:
        return (self.context,)

    def overrides(self) -> list[str]:
        return ["model=gpt"]


@dataclass(frozen=True)
class Images:
    """A ViT with a class token and a batch of random images of side * patch pixels."""

    side: int
    patch: int
    batch: int
    dim: int = 192
    heads: int = 3
    depth: int = 12
    channels: int = 3
    classes: int = 10

    kind: ClassVar[str] = "image"
    causal: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"ViT {self.dim}x{self.depth}, {self.tokens} tokens"

    @property
    def tokens(self) -> int:
        return self.side**2 + 1

    @property
    def extent(self) -> tuple[int, ...]:
        return (self.side, self.side)

    @property
    def size(self) -> tuple[int, ...]:
        return (self.side * self.patch, self.side * self.patch)

    def overrides(self) -> list[str]:
        return ["model=vit", "model.pool=class", f"model.patch_size={self.patch}"]


Shape = Text | Images

VITS = (Images(side=8, patch=4, batch=8), Images(side=14, patch=16, batch=4))
GPTS = (
    Text(dim=128, heads=4, depth=4, context=64, batch=12),
    Text(dim=384, heads=6, depth=6, context=256, batch=2),
    Text(dim=256, heads=8, depth=4, context=512, batch=2),
    Text(dim=128, heads=4, depth=4, context=2048, batch=1),
)
SMALL_VIT = Images(side=3, patch=2, batch=2, dim=32, heads=2, depth=2)
SMALL_GPT = Text(dim=64, heads=2, depth=2, context=16, batch=2, vocab=32)


@cache
def configs() -> Configs:
    return Configs("train")


def composed(shape: Shape, word: str, *overrides: str) -> Composed:
    """The configuration that train.py would run."""
    sizes = [f"model.{key}={getattr(shape, key)}" for key in ("dim", "heads", "depth")]
    return configs().compose([*shape.overrides(), *sizes, f"pos={word}", *overrides])


def build(shape: Shape, word: str, *overrides: str) -> nn.Module:
    """Our model of a shape with the encoding that a word names; the same weights at every call."""
    torch.manual_seed(0)
    found = composed(shape, word, *overrides)
    return build_model(found.values | {"choices": found.choices}, shape)


def batch(shape: Shape, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Random inputs and targets."""
    return random_batch(shape, shape.size, shape.batch, torch.device(device))


def words(shape: Shape) -> dict[str, PositionEncoding]:
    """Every word of configs/pos that describes such inputs as they are, and its first layer's encoding."""
    spec = Spec(shape.dim, shape.heads, shape.extent, shape.causal, layers=shape.depth)
    found: dict[str, PositionEncoding] = {}
    for word in configs().options("pos"):
        layers = build_encodings(configs().compose([f"pos={word}"]).values["pos"], spec)
        if layers is not None:
            found[word] = layers[0]
    return found


def parameters(model: nn.Module, without: tuple[str, ...] = ()) -> int:
    """How many numbers a model learns, but for parameters whose name contains one of `without`."""
    named: Any = model.named_parameters()
    return sum(each.numel() for name, each in named if not any(part in name for part in without))
