"""Learned kernels of the distance, added to the scores."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Spec
from .offset_bias import OffsetBias
from .ops import check_choices


class Kerple(OffsetBias):
    """score(i, j) -= p_h * ln(1 + a_h |i - j|), or a_h * |i - j|^p_h,  with p_h, a_h > 0 learned.

    Chi, Fan, Ramadge & Rudnicky 2022, "KERPLE", section 4.2: the two kernels of conditionally positive
    definite distances that it tests, of which `form: log` extrapolates better. Near keys win, and each
    head learns how fast the others fade; `power` with p = 1 is ALiBi. 2 * heads numbers, one set for all layers.

    Start, as in the authors' code: p ~ U(0, 2), a ~ U(0, 1), neither below 0.01. That code keeps them in bounds
    by writing the parameters in each forward pass; here softplus does, and 2 * sigmoid where p <= 2 (power).
    Past the trained extent the penalty goes on growing: far keys fade.
    """

    shift_invariant = unbounded = True

    def __init__(self, spec: Spec, form: Literal["log", "power"] = "log") -> None:
        super().__init__(spec)
        check_choices(self, {"form": form})
        self.form = form
        self.p_raw = nn.Parameter(torch.empty(spec.heads))
        self.a_raw = nn.Parameter(torch.empty(spec.heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.p_raw, 0, 2)
        nn.init.uniform_(self.a_raw, 0, 1)
        self.set(self.p_raw.detach().clamp(0.01, 1.99), self.a_raw.detach().clamp(min=0.01))

    def set(self, p: Tensor, a: Tensor) -> None:
        """Make p and a (H,) what the bias uses."""
        with torch.no_grad():
            self.p_raw.copy_(p.expm1().log() if self.form == "log" else (p / 2).logit())
            self.a_raw.copy_(a.expm1().log())

    def of_offset(self, n: Tensor) -> Tensor:
        p_raw, a, n = self.p_raw.float()[:, None], F.softplus(self.a_raw.float())[:, None], n.abs().float()
        if self.form == "log":
            return -F.softplus(p_raw) * torch.log1p(a * n)
        # 0^p has no finite slope in p where it is computed as exp(p ln 0)
        return -a * torch.where(n > 0, n.clamp(min=1) ** (2 * p_raw.sigmoid()), 0)
