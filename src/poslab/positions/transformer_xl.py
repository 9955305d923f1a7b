"""Sinusoids of the offset, read by the query through a learned map."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import angles, both_views, dot_offsets, frequencies


class TransformerXL(PositionEncoding):
    """score(i, j) += (u_h . k_j + (q_i + v_h) . W_h R[i - j]) / sqrt(D),  R[n] = [sin n w, cos n w] of width C.

    Dai et al. 2019, "Transformer-XL", section 3.3: q_i . W_h R asks by content how far the key is,
    v_h . W_h R prefers distances whatever the content, u_h . k_j prefers contents wherever they are.
    w_i = theta^(-2i/C). W is learned in every layer; u and v too, or with `tie` once for all layers,
    as in the authors' PyTorch code (their TensorFlow code has both). All start at N(0, init_std^2).

    The authors' shift of rows leaves wrong numbers above the diagonal, where a causal model does not
    look; here both sides are right, for bidirectional models too.

    Every offset is computable, trained or not. `clamp_len` lets all farther keys look that far away, as
    the authors do when they read contexts longer than those of training.
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 1

    def __init__(
        self,
        spec: Spec,
        theta: float = 10_000.0,
        tie: bool = True,
        clamp_len: int | None = None,
        init_std: float = 0.02,
    ) -> None:
        super().__init__(spec)
        if spec.dim % 2:
            raise ValueError(f"transformer_xl halves the channels into sines and cosines: dim={spec.dim} is odd.")
        if clamp_len is not None and clamp_len < 1:
            raise ValueError(f"clamp_len={clamp_len} is a distance of 1 or more, or null.")
        self.theta, self.tie, self.clamp_len, self.init_std = theta, tie, clamp_len, init_std
        self.weight = nn.Parameter(torch.empty(spec.dim, spec.dim))
        self.u: nn.Parameter | None = nn.Parameter(torch.empty(spec.heads, spec.head_dim))
        self.v: nn.Parameter | None = nn.Parameter(torch.empty(spec.heads, spec.head_dim))
        self._first: list[TransformerXL] = []  # who has u and v if not this layer; a list, or it would be a submodule
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=self.init_std)

    def share(self, earlier: Sequence[PositionEncoding]) -> None:
        if self.tie and earlier:
            assert isinstance(earlier[0], TransformerXL)
            self._first, self.u, self.v = [earlier[0]], None, None

    def vectors(self, n: Tensor) -> Tensor:
        """(H, N, D): W_h R[n] of integers n (N,)."""
        if self.clamp_len is not None:
            n = n.clamp(-self.clamp_len, self.clamp_len)
        turns = angles(n, frequencies(self.spec.dim, self.theta))
        sines = torch.cat((turns.sin(), turns.cos()), dim=-1).to(self.weight.dtype)
        return F.linear(sines, self.weight).unflatten(-1, (self.spec.heads, -1)).transpose(0, 1)

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor:
        owner = self._first[0] if self._first else self
        assert owner.u is not None and owner.v is not None
        u, v = (x.to(q.dtype) * self.spec.head_dim**-0.5 for x in (owner.u, owner.v))
        q = q * self.spec.head_dim**-0.5 + v[:, None]
        return (k @ u[:, :, None]).mT + dot_offsets(q, self.vectors, q_pos, k_pos, both_views(self.spec)[0])
