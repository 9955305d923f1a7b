"""Several encodings at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec


class Sum(PositionEncoding):
    """Everything that its parts do: vectors and biases add up, rotations follow one another.

    RoPE-ViT (Heo et al. 2024, section 3.3) trains `rope2d + learned` this way. The sum claims what
    all of its parts claim. Content biases read q and k after the rotations, as attention does, and with
    them absolute positions.
    """

    def __init__(self, spec: Spec, parts: Mapping[str, Callable[[Spec], PositionEncoding]]) -> None:
        super().__init__(spec)
        built = {name: part(spec) for name, part in parts.items()}
        scales = {part.scale for part in built.values() if part.scale is not None}
        if len(scales) > 1:
            raise ValueError(f"{' + '.join(built)} scale q.k differently ({sorted(scales)}) and cannot be summed.")
        axes = {part.axes for part in built.values() if part.axes is not None}
        if len(axes) > 1:
            raise ValueError(f"{' + '.join(built)}: one describes text, another grids; sum encodings of one kind.")
        wide = [name for name, part in built.items() if part.overrides("rotate_prefix")]
        reading = [name for name, part in built.items() if part.overrides("rotate") or part.overrides("content_bias")]
        if wide and len(reading) > 1:
            raise ValueError(
                f"{wide[0]} widens q and k, which {' and '.join(set(reading) - {wide[0]})} would turn or read: "
                "sum it with vectors or with biases from positions alone."
            )
        self.axes = axes.pop() if axes else None
        self.scale = scales.pop() if scales else None
        self.per_layer = any(part.per_layer for part in built.values())
        self.own = nn.ModuleDict(built)
        self._parts = built  # its own, or the first layer's where a part is one for all layers

    def share(self, earlier: Sequence[PositionEncoding]) -> None:
        sums = [other for other in earlier if isinstance(other, Sum)]
        for name, part in list(self._parts.items()):
            if part.per_layer:
                part.share([other._parts[name] for other in sums])
            elif sums:
                self._parts[name] = sums[0]._parts[name]
                del self.own[name]

    @property
    def name(self) -> str:
        return " + ".join(part.name for part in self._parts.values() if not part.unbounded) or super().name

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        if self.overrides("rotate") and self.overrides("content_bias"):
            return False  # a content bias of turned queries reads where they are
        turning = [part for part in self._parts.values() if part.overrides("rotate")]
        if len({(getattr(part, "pairs", part), getattr(part, "width", None)) for part in turning}) > 1:
            return False  # turns of channels that are paired otherwise do not commute
        return all(part.shift_invariant for part in self._parts.values())

    @property
    def norm_preserving(self) -> bool:  # type: ignore[override]
        return all(part.norm_preserving for part in self._parts.values())

    @property
    def unbounded(self) -> bool:  # type: ignore[override]
        return all(part.unbounded for part in self._parts.values())

    def reset_parameters(self) -> None:
        """The parts reset themselves: a model walks all modules."""

    def adopt(self, other: PositionEncoding) -> None:
        """Part by part: each knows how to reach another extent."""
        assert isinstance(other, Sum)
        for name, part in self.own.items():
            part.adopt(other.own[name])  # type: ignore[operator]

    def embed(self, pos: Positions) -> Tensor | None:
        return self._total([part.embed(pos) for part in self._parts.values()])

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        for part in self._parts.values():
            q, k, v = part.rotate(q, k, v, pos)
        return q, k, v

    def rotate_prefix(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        for part in self._parts.values():
            q, k = part.rotate_prefix(q, k)
        return q, k

    def unrotate(self, y: Tensor, pos: Positions) -> Tensor:
        for part in reversed(self._parts.values()):
            y = part.unrotate(y, pos)
        return y

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor | None:
        return self._total([part.bias(q_pos, k_pos) for part in self._parts.values()])

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor | None:
        return self._total([part.content_bias(q, k, q_pos, k_pos) for part in self._parts.values()])

    def overrides(self, method: str) -> bool:
        return any(part.overrides(method) for part in self._parts.values())

    @staticmethod
    def _total(terms: list[Tensor | None]) -> Tensor | None:
        present = [term for term in terms if term is not None]
        return torch.stack(present).sum(0) if len(present) > 1 else (present[0] if present else None)
