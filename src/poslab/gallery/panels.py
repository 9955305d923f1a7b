"""What an encoding says about positions, as numbers to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..positions import NotDefined, PositionEncoding, Positions, Spec

TEXT = Spec(128, 4, (64,), causal=True, layers=4)
IMAGE = Spec(128, 4, (12, 16), causal=False, layers=4)
PAST = 2  # times the trained extent, along each axis


@dataclass(frozen=True)
class Panel:
    """One picture: `curves` (H, offsets), a `matrix` (T, T) or a `map` (rows, columns); None where not defined."""

    title: str
    kind: str
    values: Tensor | None
    trained: tuple[int, ...]


def similarity(encoding: PositionEncoding, pos: Positions) -> Tensor:
    """(T, T) cosines between the vectors that are added to the tokens."""
    vectors = encoding.embed(pos)
    assert vectors is not None
    unit = F.normalize(vectors.float(), dim=1)
    return unit @ unit.T


def scores(encoding: PositionEncoding, query: int, pos: Positions) -> Tensor:
    """(H, T) logits of the token `query` and all tokens, with q and k all ones; nan where a key is hidden."""
    spec = encoding.spec
    ones = torch.ones(1, spec.heads, len(pos), spec.head_dim)
    q, k, _ = encoding.rotate(ones, ones, ones, pos)
    q, q_pos = q[:, :, query : query + 1], pos[query : query + 1]
    scale = spec.head_dim**-0.5 if encoding.scale is None else encoding.scale
    logits = scale * q @ k.transpose(-1, -2)
    for term in (encoding.bias(q_pos, pos), encoding.content_bias(q, k, q_pos, pos)):
        logits = logits if term is None else logits + term
    hidden = logits == float("-inf")
    if spec.causal:
        hidden = hidden | (pos.axis(0) > q_pos.axis(0))
    return logits.masked_fill(hidden, float("nan"))[0, :, 0]


def panels(encoding: PositionEncoding, heads: int = 1) -> list[Panel]:
    """All pictures of an encoding: the first `heads` heads of images, all heads of texts."""
    trained = encoding.spec.extent
    past = tuple(PAST * side for side in trained)
    found: list[Panel] = []

    def add(title: str, kind: str, compute: Callable[[], Tensor]) -> None:
        try:
            with torch.no_grad():
                found.append(Panel(title, kind, compute(), trained))
        except NotDefined:
            found.append(Panel(title, kind, None, trained))

    def positions(extent: tuple[int, ...]) -> Positions:
        if not encoding.unbounded and extent != trained:
            raise NotDefined
        return Positions.line(extent[0]) if len(extent) == 1 else Positions.grid(*extent)

    embeds = encoding.overrides("embed")
    turns = any(encoding.overrides(place) for place in ("rotate", "bias", "content_bias"))
    for extent, where in ((trained, "trained"), (past, "past trained")):
        size = f"{'x'.join(map(str, extent))}, {where}"
        centre = (extent[0] // 2) * extent[-1] + extent[-1] // 2
        if len(extent) == 1:
            if embeds:
                add(f"likeness of positions\n{size}", "matrix", lambda e=extent: similarity(encoding, positions(e)))
            if turns:
                add(f"score from the last\n{size}", "curves",
                    lambda e=extent: scores(encoding, e[0] - 1, positions(e)).flip(-1))  # fmt: skip
            continue
        if embeds:
            add(f"likeness to the centre\n{size}", "map",
                lambda e=extent, i=centre: similarity(encoding, positions(e))[i].unflatten(0, e))  # fmt: skip
        for head in range(min(heads, encoding.spec.heads) if turns else 0):
            add(f"score from the centre, head {head + 1}\n{size}", "map",
                lambda e=extent, i=centre, h=head: scores(encoding, i, positions(e))[h].unflatten(0, e))  # fmt: skip
    return found
