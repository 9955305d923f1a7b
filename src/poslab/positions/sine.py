"""Sines of the position, added to the tokens."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from .base import PositionEncoding, Positions, Spec
from .ops import angles, check_choices, frequencies, sines


class Sine(PositionEncoding):
    """x_t += scale * [sin(t w_0), cos(t w_0), sin(t w_1), ...],  w_i = theta^(-2i/C).

    Vaswani et al. 2017, section 3.5. A shift of the position is a rotation of the vector, so a
    linear layer could read offsets. Computable at every position, never trained past the extent.

    `layout: interleaved` is the paper's order, `concat` puts all sines before all cosines.
    `endpoint` uses w_i = theta^(-i / (C/2 - 1)), ending at 1/theta exactly: tensor2tensor and
    fairseq, the authors' own code among them, do this where the paper does not. `scale` multiplies
    the vectors. The paper's is 1, beside token vectors of unit variance (it multiplies them by sqrt(C),
    section 3.4); beside GPT-2's, which start at N(0, .02^2), the same proportion is 0.02. At 1 the sines
    drown the tokens for hundreds of steps.
    """

    unbounded = True
    axes = 1

    def __init__(
        self,
        spec: Spec,
        theta: float = 10_000.0,
        layout: Literal["interleaved", "concat"] = "interleaved",
        endpoint: bool = False,
        scale: float = 1.0,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"layout": layout})
        if spec.dim % 2:
            raise ValueError(f"Sines come in pairs with cosines: dim={spec.dim} is odd, choose an even dim.")
        self.theta, self.layout, self.endpoint, self.amplitude = theta, layout, endpoint, scale

    def embed(self, pos: Positions) -> Tensor:
        turns = angles(pos.axis(0), frequencies(self.spec.dim, self.theta, self.endpoint))
        return (self.amplitude * sines(turns, self.layout == "interleaved")).float()
