"""The position as a one-hot vector, through a linear map."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import NotDefined, PositionEncoding, Positions, Spec


class OneHot(PositionEncoding):
    """x_t += W e_t + b,  e_t the t-th unit vector among N trained positions, (W, b) a linear layer.

    The form that textbooks start from: give each position a dimension of its own and let the model
    mix them. A product with e_t picks column t of W, so this is the table of `learned` (Gehring et
    al. 2017, section 3.1) with the identity in front. What is left of a difference is how training starts:
    a linear layer's W and b ~ U(-1/sqrt(N), 1/sqrt(N)) (PyTorch), wider where positions are few, against
    N(0, .02^2), and b, a vector that all positions share.

    Nothing is multiplied: column t is looked up. An image has one unit vector for each cell of its grid, row
    by row. Beyond the trained extent there is no dimension left, so the encoding is not defined; a smaller
    text or grid uses the first positions of each axis.
    """

    def __init__(self, spec: Spec, bias: bool = True) -> None:
        super().__init__(spec)
        self.linear = nn.Linear(torch.Size(spec.extent).numel(), spec.dim, bias=bias)

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()

    def adopt(self, other: PositionEncoding) -> None:
        """The columns of the positions that both have; NotDefined where `other` has fewer."""
        assert isinstance(other, OneHot)
        own, theirs = self.spec.extent, other.spec.extent
        if any(side > known for side, known in zip(own, theirs, strict=True)):
            here, there = ("x".join(map(str, extent)) for extent in (own, theirs))
            raise NotDefined(f"OneHot was trained at {there} and has no dimension for the other positions of {here}.")
        cells = (slice(None), *(slice(side) for side in own))
        with torch.no_grad():
            self.linear.weight.copy_(other.linear.weight.unflatten(1, theirs)[cells].flatten(1))
            if self.linear.bias is not None:
                self.linear.bias.copy_(other.linear.bias)

    def embed(self, pos: Positions) -> Tensor:
        index = pos.axis(0)
        for axis in range(1, pos.axes):
            index = index * self.spec.extent[axis] + pos.axis(axis)
        columns = self.linear.weight[:, index].T.float()
        return columns if self.linear.bias is None else columns + self.linear.bias.float()
