"""Disentangled attention: content to position and position to content."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import both_views, check_choices, dot_offsets, recentred


class DeBERTa(PositionEncoding):
    """score(i, j) = (q_i . k_j + q_i . Kr[d(i - j)] + k_j . Qr[d(i - j)]) / sqrt(3D),  Kr = P W_k, Qr = P W_q.

    He et al. 2021, "DeBERTa", equation 4 and section 3.1: the query asks where the key is, and the
    key where the query is. P has 2S vectors of width C, one table for all layers, which project it by
    maps of their own. d(n) = clip(n + S, 0, 2S - 1) with S = `span`: offset S and beyond share a
    vector, -S and beyond another, so any length is computable.

    `log_buckets: B` is the second version of the authors' code: offsets up to B/2 have a vector each,
    farther ones share B/2 - 1 vectors a side, by ranges that grow logarithmically up to `span`.

    In the paper the key's term reads Qr[d(j - i)], in the authors' code Qr[d(i - j)]: `p2c_index`. Left
    out: their bias of W_q, which is no position, the sharing of W_k and W_q with the maps of the content, the
    normalisation of P in version 2 and the absolute positions before the last layers.
    P starts at N(0, init_std^2), and so do the maps.
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 1

    def __init__(
        self,
        spec: Spec,
        span: int | None = None,
        log_buckets: int | None = None,
        p2c_index: Literal["code", "paper"] = "code",
        init_std: float = 0.02,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"p2c_index": p2c_index})
        self.span = spec.extent[0] if span is None else span
        if self.span < 1:
            raise ValueError(f"span={span}: deberta tells apart distances up to 1 or more; null is the trained extent.")
        if log_buckets is not None and not 4 <= log_buckets < 2 * self.span - 2:
            raise ValueError(
                f"log_buckets={log_buckets} with span={self.span}: use 4 or more, with half of it below span - 1."
            )
        self.log_buckets, self.p2c_index, self.init_std = log_buckets, p2c_index, init_std
        self.rows = log_buckets or self.span  # on each side
        self.scale: float = (3 * spec.head_dim) ** -0.5
        self.table: nn.Parameter | None = nn.Parameter(torch.empty(2 * self.rows, spec.dim))
        self.key_weight = nn.Parameter(torch.empty(spec.dim, spec.dim))
        self.query_weight = nn.Parameter(torch.empty(spec.dim, spec.dim))
        self._first: list[DeBERTa] = []  # who has the table if not this layer; a list, or it would be a submodule
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=self.init_std)

    def share(self, earlier: Sequence[PositionEncoding]) -> None:
        if earlier:
            assert isinstance(earlier[0], DeBERTa)
            self._first, self.table = [earlier[0]], None

    def adopt(self, other: PositionEncoding) -> None:
        """A span that follows the extent: offsets that the other did not tell apart start from its farthest one."""
        learned = other.state_dict()
        if self.table is not None:
            learned["table"] = recentred(learned["table"], len(self.table))
        self.load_state_dict(learned)

    def row(self, n: Tensor) -> Tensor:
        """Row of the table for each offset n."""
        if self.log_buckets is not None:
            half = self.log_buckets // 2
            grown = torch.log(n.abs().clamp(min=half).double() / half) / math.log((self.span - 1) / half)
            # a hair less, so that rounding does not lift |n| = span - 1 into the next bucket
            far = half + torch.ceil(grown * (half - 1) - 1e-9).long()
            n = torch.where(n.abs() <= half, n, n.sign() * far)
        return (n + self.rows).clamp(0, 2 * self.rows - 1)

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor:
        table = (self._first[0] if self._first else self).table
        assert table is not None
        key, query = (
            F.linear(table, weight).unflatten(-1, (self.spec.heads, -1)).transpose(0, 1)  # (H, 2S, D)
            for weight in (self.key_weight, self.query_weight)
        )
        sign = -1 if self.p2c_index == "code" else 1  # from the key's side the offset is j - i
        past, future = both_views(self.spec)
        c2p = dot_offsets(self.scale * q, lambda n: key.index_select(1, self.row(n)), q_pos, k_pos, past)
        p2c = dot_offsets(self.scale * k, lambda n: query.index_select(1, self.row(sign * n)), k_pos, q_pos, future)
        return c2p + p2c.mT
