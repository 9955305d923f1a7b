"""Several encodings at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec


def declared_axes(factory: Callable[[Spec], PositionEncoding]) -> int | None:
    """The axes that a class, or a partial of one, describes: known before anything is built."""
    target, keywords = getattr(factory, "func", factory), getattr(factory, "keywords", {})
    if target is Sum:
        return next((axes for part in keywords["parts"] if (axes := declared_axes(part)) is not None), None)
    return getattr(target, "axes", None)


class Sum(PositionEncoding):
    """Everything that its parts do: vectors and biases add up, rotations follow one another.

    RoPE-ViT (Heo et al. 2024, section 3.3) trains `rope2d + learned` this way. The sum claims what
    all of its parts claim. Content biases read q and k after the rotations, as attention does.
    In a deeper layer a part that is one for all layers is the first layer's own, lent by `share`.
    """

    def __init__(self, spec: Spec, parts: Sequence[Callable[[Spec], PositionEncoding]]) -> None:
        super().__init__(spec)
        built = [part(spec) for part in parts]
        scales = {part.scale for part in built if part.scale is not None}
        if len(scales) > 1:
            raise ValueError(f"These encodings scale q.k differently ({sorted(scales)}) and cannot be summed.")
        axes = {part.axes for part in built if part.axes is not None}
        if len(axes) > 1:
            raise ValueError("One part describes text and another describes grids: sum encodings of the same kind.")
        self.axes = axes.pop() if axes else None
        self.scale = scales.pop() if scales else None
        self.per_layer = any(part.per_layer for part in built)
        self.own = nn.ModuleList(part for part in built if part.per_layer or spec.layer == 0)
        self._parts: tuple[PositionEncoding, ...] = tuple(self.own)  # type: ignore[arg-type]
        self._slots = tuple(part.per_layer for part in built)

    def share(self, first: Sum) -> None:
        """Use the first layer's parts wherever a part is one for all layers."""
        own = iter([part for part in self._parts if part.per_layer])
        self._parts = tuple(
            next(own) if per_layer else part for per_layer, part in zip(self._slots, first._parts, strict=True)
        )

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return all(part.shift_invariant for part in self._parts)

    @property
    def norm_preserving(self) -> bool:  # type: ignore[override]
        return all(part.norm_preserving for part in self._parts)

    @property
    def unbounded(self) -> bool:  # type: ignore[override]
        return all(part.unbounded for part in self._parts)

    def reset_parameters(self) -> None:
        """The parts reset themselves: a model walks all modules."""

    def adopt(self, other: PositionEncoding) -> None:
        """Part by part: each knows how to reach another extent."""
        assert isinstance(other, Sum)
        for mine, theirs in zip(self.own, other.own, strict=True):
            mine.adopt(theirs)  # type: ignore[operator]

    def embed(self, pos: Positions) -> Tensor | None:
        return self._total([part.embed(pos) for part in self._parts])

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        for part in self._parts:
            q, k, v = part.rotate(q, k, v, pos)
        return q, k, v

    def unrotate(self, y: Tensor, pos: Positions) -> Tensor:
        for part in reversed(self._parts):
            y = part.unrotate(y, pos)
        return y

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor | None:
        return self._total([part.bias(q_pos, k_pos) for part in self._parts])

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor | None:
        return self._total([part.content_bias(q, k, q_pos, k_pos) for part in self._parts])

    def overrides(self, method: str) -> bool:
        return any(part.overrides(method) for part in self._parts)

    @staticmethod
    def _total(terms: list[Tensor | None]) -> Tensor | None:
        present = [term for term in terms if term is not None]
        return torch.stack(present).sum(0) if len(present) > 1 else (present[0] if present else None)
