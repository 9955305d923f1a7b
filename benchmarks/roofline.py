"""The training step over its bare matrix products: how much of it is not arithmetic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .models import GPTS, SMALL_GPT, SMALL_VIT, VITS, Shape, batch, build
from .pairs import Comparison, ratio
from .report import Options, main
from .step import Step

GOALS = {"image": 1.35, "text": 1.6}


def rows(options: Options) -> Iterator[Comparison]:
    for shape in (SMALL_VIT, SMALL_GPT) if options.small else (*VITS, *GPTS):
        if options.wants(shape.name):
            model = build(shape, "none")
            bare = Products(operands(model, shape))
            ours = Step(model, batch(shape), options.compile)
            found = ratio(shape.name, "matrix products", ours, bare, options.pairs, GOALS[shape.kind])
            ours.check()
            yield found


class Products:
    """Products of pairs of matrices, one after the other."""

    def __init__(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        self.pairs = pairs

    def __call__(self) -> float:
        """Seconds of all of them."""
        began = time.perf_counter()
        for left, right in self.pairs:
            left @ right
        return time.perf_counter() - began

    @property
    def flops(self) -> int:
        """Two for each multiplication and addition."""
        return sum(2 * left.numel() * right.shape[-1] for left, right in self.pairs)


def operands(model: nn.Module, shape: Shape) -> list[tuple[Tensor, Tensor]]:
    """What a step of the model multiplies, random, in the memory layout of a step.

    Of a linear map y = x W^T: y, dW = dy^T x, and dx = dy W where something before it learns. Of an attention:
    scores, y, and the two gradients of each. Whole score matrices, also where a causal kernel skips half.
    """
    found: list[tuple[Tensor, Tensor]] = []
    for weight, x in inputs_of_maps(model, shape):
        dy = torch.randn(len(x), len(weight))
        found += [(x, weight.T), (dy.T, x)] + ([(dy, weight)] if x.requires_grad else [])
    for _ in range(shape.depth):
        q, k, v, dy = torch.randn(4, shape.batch, shape.heads, shape.tokens, shape.dim // shape.heads)
        p, ds = torch.randn(2, shape.batch, shape.heads, shape.tokens, shape.tokens)
        found += [(q, k.mT), (p, v), (dy, v.mT), (p.mT, dy), (ds, k), (ds.mT, q)]
    return [(left.detach(), right.detach()) for left, right in found]


def inputs_of_maps(model: nn.Module, shape: Shape) -> list[tuple[Tensor, Tensor]]:
    """(weight, x (rows, in)) of every linear map, x random of the size that a forward pass gives it."""
    seen: list[tuple[Tensor, Tensor]] = []

    def look(module: Any, arguments: tuple[Tensor, ...]) -> None:
        (x,) = arguments
        rows = torch.randn(x.numel() // x.shape[-1], x.shape[-1])
        seen.append((module.weight, rows.requires_grad_(x.requires_grad)))

    hooks = [each.register_forward_pre_hook(look) for each in model.modules() if isinstance(each, nn.Linear)]
    model(batch(shape)[0])
    for hook in hooks:
        hook.remove()
    return seen


if __name__ == "__main__":
    main("roofline", rows)
