"""How far away, and how widely, does each layer of a model attend?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..positions import Frame, NotDefined, Positions
from ..positions.frame import STRIP_ELEMENTS
from .base import WHOLE, Evaluation, Evaluator, Measurement, Metric, Part, Size
from .resolution import check_grid


class Attention(Evaluator):
    """Mean attention distance and entropy, over heads and queries, by layer and together.

    Distance: from a query to the keys, weighted by the attention weights, in tokens of a text, in patches
    (Euclidean) of an image (Dosovitskiy et al. 2021, figure 11; Kazemnejad et al. 2023 look at the same
    distances in text). Class and register tokens have no place: they are not among the queries, and a
    distance is over the weight that the patches got. Entropy: -sum w log w over all keys, in nats, and as a
    share of the logarithm of the number of keys that causality leaves, over the queries that have a choice.

    Args:
        count: images, or windows of the test text.
    """

    name = "attention"
    question = "Where attention goes"
    axis = "size, tokens or pixels"
    logarithmic = True
    metrics = {
        "distance": Metric("mean attention distance, tokens or patches", higher_is_better=False),
        "entropy": Metric("attention entropy, nats", higher_is_better=False),
        "relative_entropy": Metric("attention entropy, % of the largest", higher_is_better=False, percent=True),
    }
    profiles = {"distance": "layer", "entropy": "layer"}
    compared = False  # neither end of these scales is better

    def __init__(self, sizes: Any = None, ratios: Sequence[float] = (), count: int = 64, batch_size: int = 250) -> None:
        super().__init__(sizes, ratios, batch_size)
        self.check_counts(count=count)
        self.count = count

    def suits(self, data: Any) -> bool:
        return data.kind == "image" or data.dense

    def protocol(self, data: Any) -> str:
        means = "means over heads, queries and layers"
        if data.kind == "image":
            return f"up to {self.count:,} test images, {data.preprocessing}; {means}; patches only"
        return f"up to {self.count:,} windows, up to {self.sizes(data)[-1][0]} tokens with the same end; {means}"

    def clusters(self, data: Any) -> str:
        return "documents" if data.kind == "text" else "images"

    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        if data.kind == "image":
            check_grid(model, size)
            coordinates = Positions.grid(*model.grid_of(*size)).coordinates  # type: ignore[operator]
            chosen = torch.linspace(0, len(data.test) - 1, min(self.count, len(data.test))).round().long()
            images, clusters = data.test.at(size), chosen
        else:
            (length,) = size
            coordinates = Positions.line(length).coordinates
            try:
                windows = data.windows(length, max(self.sizes(data)[-1][0], length), 1, self.count)
            except ValueError as error:
                raise NotDefined(str(error)) from error
            chosen, clusters = torch.arange(len(windows)), windows.document
        with Evaluation(model) as device, reading(model, coordinates.to(device)) as layers:

            def answers(index: Tensor) -> dict[str, Tensor]:
                layers.clear()
                if data.kind == "image":
                    model(data.prepare(images[chosen[index]]["images"].to(device), size))
                else:
                    model(windows.inputs[index].to(device), last=1)
                means = {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}  # (L, B)
                profile = {f"{name}@{n + 1}": row for name in self.profiles for n, row in enumerate(means[name])}
                return {name: each.mean(0) for name, each in means.items()} | profile

            index = part.of(len(chosen))
            totals = self.read(index, self.batch(size, self.trained(data)), answers)
        return Measurement(totals, np.ones(len(index)), clusters[index].numpy())


@contextmanager
def reading(model: nn.Module, coordinates: Tensor) -> Iterator[list[dict[str, Tensor]]]:
    """Within, each forward pass of `model` appends what `spread` says of each layer."""
    layers: list[dict[str, Tensor]] = []

    def read(module: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, frame = inputs[:2]
        q, k, _ = module.project(x, frame)
        layers.append(spread(frame, q, k, coordinates))

    hooks = [block.attention.register_forward_hook(read) for block in model.trunk.blocks]  # type: ignore[union-attr]
    try:
        with torch.compiler.set_stance("force_eager"):  # compiled code calls no hook that came after it
            yield layers
    finally:
        for hook in hooks:
            hook.remove()


def spread(frame: Frame, q: Tensor, k: Tensor, coordinates: Tensor) -> dict[str, Tensor]:
    """Distance, entropy and relative entropy (B,) of one layer, from turned q and k (B, H, prefix + T, D).

    `coordinates` (T, A) of the tokens decide what a distance is. Memory: strips of queries.
    """
    batch, heads, rows, _ = q.shape
    p, places = frame.prefix, coordinates.float()
    visible = torch.arange(1, rows + 1) if frame.causal else torch.full((rows,), rows)
    largest = visible.to(q.device).log()  # of the entropy, at each query
    sums = dict.fromkeys(("distance", "entropy", "relative_entropy"), torch.zeros(batch, device=q.device).double())
    strip = max(1, STRIP_ELEMENTS // (batch * heads * rows))
    for first in range(p, rows, strip):
        last = min(first + strip, rows)
        weights = frame.weights(q, k, first, last).float()
        entropy = torch.special.entr(weights).sum(-1)
        share = torch.where(largest[first:last] > 0, entropy / largest[first:last], 0)
        inside = weights[..., p:]
        far = torch.cdist(places[first - p : last - p], places)
        distance = (inside * far).sum(-1) / inside.sum(-1).clamp(min=torch.finfo(torch.float32).tiny)
        for name, each in {"distance": distance, "entropy": entropy, "relative_entropy": share}.items():
            sums[name] = sums[name] + each.double().sum((1, 2))
    queries = rows - p
    choosing = max(1, int((largest[p:] > 0).sum()))
    over = {"distance": queries, "entropy": queries, "relative_entropy": choosing}
    return {name: total / (heads * over[name]) for name, total in sums.items()}
