"""A learned vector for each offset, asked by the query and by the key."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import both_views, check_choices, dot_offsets, recentred


class BertRelative(PositionEncoding):
    """score(i, j) += (q_i + k_j) . E[i - j] / sqrt(D),  E: 2M - 1 learned vectors a layer, |i - j| < M.

    Huang et al. 2020, "Improve Transformer Models with Better Relative Position Embeddings", method 4,
    and the code released with it in transformers (`relative_key_query`): query and key both ask
    how far apart they are, heads share the vectors and so do both terms. `form: key` leaves the key's
    term out (`relative_key`), which is Shaw et al. 2018 without clipping; their sign is j - i.

    M is the trained extent and nothing is clipped: an offset of M or more has no vector and is refused.
    E starts at N(0, init_std^2), as all of BERT's tables.
    """

    shift_invariant = True
    per_layer = True
    axes = 1

    def __init__(self, spec: Spec, form: Literal["key", "key_query"] = "key_query", init_std: float = 0.02) -> None:
        super().__init__(spec)
        check_choices(self, {"form": form})
        self.form, self.init_std = form, init_std
        self.table = nn.Parameter(torch.empty(2 * spec.extent[0] - 1, spec.head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.init_std)

    def adopt(self, other: PositionEncoding) -> None:
        """Offsets that the other does not have start from its farthest one."""
        assert isinstance(other, BertRelative)
        with torch.no_grad():
            self.table.copy_(recentred(other.table, len(self.table)))

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor:
        scale, zero = self.spec.head_dim**-0.5, self.spec.extent[0] - 1  # the row of offset 0
        past, future = both_views(self.spec)
        bias = dot_offsets(scale * q, lambda n: self.table.index_select(0, zero + n), q_pos, k_pos, past)
        if self.form == "key_query":  # from the key's side the offset is j - i
            backward = dot_offsets(scale * k, lambda n: self.table.index_select(0, zero - n), k_pos, q_pos, future)
            bias = bias + backward.mT
        return bias
