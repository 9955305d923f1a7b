"""Contextual position: how many tokens that matter lie between query and key."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import offset


class CoPE(PositionEncoding):
    """score(i, j) += q_i . E[p_ij],  p_ij = sum over t = j ... i of sigmoid(q_i . k_t / sqrt(D)).

    Golovneva et al. 2024, "Contextual Position Encoding", section 4 and the code of its appendix. The
    query decides by a gate which tokens count, so a head may count words, or sentences. p is real and at most
    max_pos - 1; E[p] is the mix of the vectors of the two integers beside it. E, one table a layer for
    all heads, starts at zero.

    Gates read the scaled scores of q and k as attention has them, after a rotation if there is one, and
    the future has gates of zero: causal models only. As in the appendix the term is added unscaled;
    the authors' training code divides it by sqrt(D) unless told not to: `scaled`.

    Farther keys all share the last vector, so any length is computable.
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 1

    def __init__(self, spec: Spec, max_pos: int = 64, scaled: bool = False) -> None:
        super().__init__(spec)
        if not spec.causal:
            raise ValueError("cope counts the tokens from the key up to the query: use it in a causal model, a GPT.")
        if max_pos < 2:
            raise ValueError(f"max_pos={max_pos}: cope needs two positions or more to mix.")
        self.max_pos, self.scaled = max_pos, scaled
        self.table = nn.Parameter(torch.empty(max_pos, spec.head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.table)

    def positions(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor:
        """(B, H, Q, K) float32: p_ij, zero for keys in the future."""
        with torch.autocast(q.device.type, enabled=False):
            gates = (q.float() @ k.float().mT * self.spec.head_dim**-0.5).sigmoid()
        gates = gates.masked_fill(offset(q_pos, k_pos) < 0, 0)
        if k_pos.start is None:  # keys in any order: count along their positions
            order = k_pos.axis(0).argsort()
            counted = gates[..., order].flip(-1).cumsum(-1).flip(-1)[..., order.argsort()]
        else:
            counted = gates.flip(-1).cumsum(-1).flip(-1)
        return counted.clamp(max=self.max_pos - 1)

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor:
        position = self.positions(q, k, q_pos, k_pos)
        scores = q @ self.table.to(q.dtype).T  # (B, H, Q, max_pos), those of the integers
        below, above = (scores.gather(-1, whole.long()) for whole in (position.floor(), position.ceil()))
        bias = torch.lerp(below.float(), above.float(), position - position.floor()).to(q.dtype)
        return bias * self.spec.head_dim**-0.5 if self.scaled else bias
