"""Position encodings: the contract (`base`), the seam to attention (`frame`), then one paper a file."""

from .base import NotDefined, PositionEncoding, Positions, Spec
from .frame import Frame
from .layers import Layers, build_layers, declared_axes
from .sum import Sum

__all__ = [
    "Frame",
    "Layers",
    "NotDefined",
    "PositionEncoding",
    "Positions",
    "Spec",
    "Sum",
    "build_layers",
    "declared_axes",
]
