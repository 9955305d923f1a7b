"""Position encodings: the contract (`base`), the seam to attention (`frame`), then one paper a file."""

from .base import NotDefined, PositionEncoding, Positions, Spec
from .frame import Frame
from .sum import Sum, declared_axes

__all__ = ["Frame", "NotDefined", "PositionEncoding", "Positions", "Spec", "Sum", "declared_axes"]
