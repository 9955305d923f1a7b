"""The contract: what a position encoding may do, and what it says about itself.

Read this file, then `rope.py` and `alibi.py`. Shapes, in the whole package:

    B batch   H heads   D width of a head   C = H * D width of the model
    T tokens  Q queries  K keys             A axes (1 for text, 2 for images)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class NotDefined(ValueError):
    """The encoding has no value at the positions it was asked for; the message says why and what to do."""


@dataclass(frozen=True)
class Spec:
    """What a model tells its encoding about itself, so that no configuration repeats a dimension."""

    dim: int
    heads: int
    extent: tuple[int, ...]  # positions seen in training: (1024,) for text, (14, 14) for images
    causal: bool
    layer: int = 0
    layers: int = 1

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise ValueError(f"dim={self.dim} does not divide into heads={self.heads}: choose heads that divide dim.")

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


class Positions:
    """Integer coordinates (T, A) of the tokens of one forward pass, and the extent they lie in.

    The extent is the size that the pass as a whole has: the grid of an image, the length of a
    text (of the whole generation while tokens come one by one). An encoding reads coordinates;
    only one that is *defined* by the size may read `extent`.
    """

    def __init__(self, coordinates: Tensor, extent: Sequence[int], start: int | None = None) -> None:
        if coordinates.ndim != 2 or coordinates.shape[1] != len(extent):
            raise ValueError(f"Positions want coordinates (T, {len(extent)}), not {tuple(coordinates.shape)}.")
        if coordinates.is_floating_point():
            raise TypeError("Positions are integers: scaling and jitter belong inside an encoding.")
        self.coordinates = coordinates
        self.extent = tuple(extent)
        self.start = start  # set where the coordinates are start, start + 1, ...: offsets are then known without a look
        self._once: dict[tuple[int, str], tuple[object, Any]] = {}

    @classmethod
    def line(
        cls, length: int, start: int = 0, extent: int | None = None, device: torch.device | str | None = None
    ) -> Positions:
        """Positions start ... start + length - 1 of a text."""
        coordinates = torch.arange(start, start + length, device=device)[:, None]
        return cls(coordinates, (start + length if extent is None else extent,), start)

    @classmethod
    def grid(cls, rows: int, columns: int, device: torch.device | str | None = None) -> Positions:
        """Row and column of each patch, token index = row * columns + column."""
        row = torch.arange(rows, device=device).repeat_interleave(columns)
        column = torch.arange(columns, device=device).repeat(rows)
        return cls(torch.stack((row, column), dim=1), (rows, columns))

    def __len__(self) -> int:
        return self.coordinates.shape[0]

    def __getitem__(self, rows: slice) -> Positions:
        first, _, step = rows.indices(len(self))
        start = None if self.start is None or step != 1 else self.start + first
        return Positions(self.coordinates[rows], self.extent, start)

    @property
    def axes(self) -> int:
        return len(self.extent)

    @property
    def device(self) -> torch.device:
        return self.coordinates.device

    def axis(self, index: int) -> Tensor:
        """(T,) coordinates along one axis: 0 is the text position or the row, 1 the column."""
        return self.coordinates[:, index]

    def shifted(self, by: int) -> Positions:
        """The same tokens, every coordinate moved by `by`; the extent stays."""
        return Positions(self.coordinates + by, self.extent, None if self.start is None else self.start + by)

    def once(self, owner: object, name: str, compute: Callable[[], Any]) -> Any:
        """`compute()`, evaluated once a forward pass for each owner: layers share angles this way."""
        key = (id(owner), name)
        if key not in self._once:
            self._once[key] = owner, compute()  # the owner too: an id is free for others once its object is gone
        return self._once[key][1]


class PositionEncoding(nn.Module):
    """Tells a Transformer where its tokens are. Override what yours does; the rest stays as it is.

    The five claims below are tested in both directions: an encoding that claims `shift_invariant`
    must be, and one that does not must not. Make a claim a property where the configuration decides it.

    Two rules. An encoding stores only what is learned: angles, distances and buckets are computed
    from the positions, in float32 or better, and cast last. And it never looks at the sequence length.
    """

    shift_invariant: bool = False  # attention is unchanged when all positions move together
    norm_preserving: bool = True  # `rotate` keeps the norms of q and k
    unbounded: bool = False  # takes positions beyond spec.extent
    per_layer: bool = False  # own parameters in each layer, or one set for all
    axes: int | None = None  # 1, 2, or None for any number
    scale: float | None = None  # of q.k; None: 1/sqrt(D), whatever width `rotate` returns

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec

    @property
    def name(self) -> str:
        """How sentences call it."""
        return type(self).__name__

    def reset_parameters(self) -> None:
        """Fill what is learned with its starting values; an encoding with parameters calls it in `__init__`."""

    def adopt(self, other: PositionEncoding) -> None:
        """Start from what the same encoding learned in a model of another extent (fine-tuning at another size)."""
        self.load_state_dict(other.state_dict())

    def share(self, earlier: Sequence[PositionEncoding]) -> None:
        """Called in each deeper layer with the earlier layers' encodings: take over what is one for all layers."""

    def embed(self, pos: Positions) -> Tensor | None:
        """(T, C) added to the tokens, once, before the first layer."""
        return None

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v (B, H, T, D) in every layer; q and k may come back wider."""
        return q, k, v

    def rotate_prefix(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """q and k of tokens without a position, only where `rotate` widens them."""
        return q, k

    def unrotate(self, y: Tensor, pos: Positions) -> Tensor:
        """The attention output (B, H, T, D), only where values were turned too."""
        return y

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor | None:
        """(H, Q, K) added to the scaled scores, from positions alone, once a forward pass."""
        return None

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor | None:
        """(B, H, Q, K) added to the scaled scores, from q (B, H, Q, D) and k (B, H, K, D), in every layer.

        In a causal model nobody reads the cells of the future: any finite number will do.
        """
        return None

    def overrides(self, method: str) -> bool:
        """Whether this encoding does anything at one of the five places."""
        return getattr(type(self), method) is not getattr(PositionEncoding, method)
