"""Learned scalars for buckets of relative distance, added to the scores."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor, nn

from .base import Spec
from .offset_bias import OffsetBias


class T5(OffsetBias):
    """score(i, j) += table_scale * E[bucket(i - j), h], one table for all layers.

    Raffel et al. 2020, section 2.1, and the authors' code for the buckets. Half of the buckets
    hold one distance each, the rest grow logarithmically up to `max_distance`; all farther keys
    share the last one, so any length is computable. A bidirectional model gives half of all
    buckets to each direction. E starts at N(0, 1/C), as in the authors' models.

    T5 itself has no 1/sqrt(D) in its scores; here they are scaled as in every other encoding, and
    the table is added afterwards. `table_scale` is T5's 1; x-transformers multiplies by sqrt(D).
    """

    shift_invariant = unbounded = True

    def __init__(self, spec: Spec, buckets: int = 32, max_distance: int = 128, table_scale: float = 1.0) -> None:
        super().__init__(spec)
        exact = buckets // (2 if spec.causal else 4)
        if exact < 1 or max_distance <= exact:
            raise ValueError(f"t5 needs at least 4 buckets and max_distance > {exact}, not {buckets}, {max_distance}.")
        if max_distance > spec.extent[0]:
            warnings.warn(
                f"t5: max_distance={max_distance} lies beyond the {spec.extent[0]} positions of training: "
                "buckets that no training pair reaches keep their starting values and are read on longer inputs.",
                stacklevel=2,
            )
        self.buckets, self.max_distance, self.table_scale = buckets, max_distance, table_scale
        self.table = nn.Parameter(torch.empty(buckets, spec.heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.spec.dim**-0.5)

    def bucket(self, n: Tensor) -> Tensor:
        """Bucket of each offset n = i - j; a key ahead (n < 0) has buckets of its own, or none if causal."""
        buckets = self.buckets
        first = torch.zeros_like(n)
        if not self.spec.causal:
            buckets //= 2
            first = torch.where(n < 0, buckets, 0)
            n = n.abs()
        n = n.clamp(min=0)
        exact = buckets // 2
        ratio = torch.log(n.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = exact + (ratio * (buckets - exact)).long()
        return first + torch.where(n < exact, n, far.clamp(max=buckets - 1))

    def of_offset(self, n: Tensor) -> Tensor:
        return self.table_scale * self.table.float().T.index_select(1, self.bucket(n))
