"""One encoding for all layers, one in each, or different ones by turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .base import PositionEncoding, Spec
from .sum import Sum

Factory = Callable[[Spec], PositionEncoding]


class Layers:
    """A different encoding by layer: those that `order` names, over and over to the depth of the model.

    `order: [rope, rope, rope, none]` leaves every fourth layer without a position, as in
    Yang et al. 2025, "Rope to Nope and Back Again". A part that is one for all layers is one for all
    of *its* layers. Vectors for the tokens are added before the first layer, so only its encoding may have them.
    """

    def __init__(self, parts: Mapping[str, Factory], order: Sequence[str]) -> None:
        unknown = [word for word in order if word not in parts]
        if unknown or not order:
            raise ValueError(f"order={list(order)} is a list of the parts, which are {', '.join(parts)}.")
        if len({declared_axes(part) for part in parts.values()} - {None}) > 1:
            raise ValueError(f"{', '.join(parts)}: one describes text, another grids; take encodings of one kind.")
        self.parts, self.order = parts, order

    def at(self, layer: int) -> Factory:
        return self.parts[self.order[layer % len(self.order)]]

    def __call__(self, spec: Spec) -> PositionEncoding:
        return self.at(spec.layer)(spec)


def declared_axes(factory: Any) -> int | None:
    """The axes that a class, or a partial of one, describes: known before anything is built."""
    target, keywords = getattr(factory, "func", factory), getattr(factory, "keywords", {})
    parts = keywords["parts"] if target is Sum else factory.parts if isinstance(factory, Layers) else None
    if parts is not None:
        return next((axes for part in parts.values() if (axes := declared_axes(part)) is not None), None)
    return getattr(target, "axes", None)


def build_layers(factory: Factory, spec: Spec) -> Iterator[PositionEncoding]:
    """The encoding of each of `spec.layers` layers, the same object where layers share it.

    Raises ValueError where an encoding that adds vectors to the tokens would start in a deeper layer.
    """
    built: dict[int, list[PositionEncoding]] = {}  # by factory, those of the layers before
    for layer in range(spec.layers):
        own = factory.at(layer) if isinstance(factory, Layers) else factory
        earlier = built.setdefault(id(own), [])
        if not earlier or earlier[0].per_layer:
            encoding = own(replace(spec, layer=layer))
            encoding.share(earlier)
            if layer and not earlier and encoding.overrides("embed"):
                raise ValueError(
                    f"{type(encoding).__name__} adds vectors to the tokens, which happens before the first layer: "
                    f"name it first, or in a sum with the first."
                )
            earlier.append(encoding)
        yield earlier[-1]
