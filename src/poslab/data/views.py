"""What a model of a given size sees of a photograph of another: centre crops, and random ones in training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

TRIES = 10


@dataclass(frozen=True)
class CentreCrop:
    """The shorter side resized to size / `ratio`, then the middle. Images (channels, h, w) uint8 stay so.

    At ratio 1 nothing of the shorter side is lost; 0.875 is the 224 of 256 pixels of many papers. Where
    `size` is not square, it is the largest rectangle of its shape in the image.
    """

    size: tuple[int, int]
    ratio: float = 1.0
    interpolation: str = "bicubic"

    def __call__(self, image: Tensor) -> Tensor:
        sides, (rows, columns) = image.shape[-2:], self.size
        zoom = max(wanted / self.ratio / side for wanted, side in zip(self.size, sides, strict=True))
        height, width = (max(wanted, round(side * zoom)) for wanted, side in zip(self.size, sides, strict=True))
        top, left = (height - rows) // 2, (width - columns) // 2
        return resized(image, (height, width), self.interpolation)[:, top : top + rows, left : left + columns]

    @property
    def protocol(self) -> str:
        return f"shorter side resized to the size / {self.ratio:g}, centre crop ({self.interpolation}, antialias)"


@dataclass(frozen=True)
class RandomCrop:
    """A part of the image, stretched to `size`: Inception's crop (Szegedy et al. 2015), as torchvision draws it.

    Args:
        area: smallest and largest share of the image. Its width is 3/4 to 4/3 of its height.
    """

    size: tuple[int, int]
    area: tuple[float, float]
    interpolation: str = "bicubic"

    def __call__(self, image: Tensor, chance: Tensor) -> Tensor:
        """The crop that the 2 * TRIES + 2 numbers in `chance`, each in [0, 1), decide."""
        top, left, height, width = self.box(*image.shape[-2:], chance.tolist())
        return resized(image[:, top : top + height, left : left + width], self.size, self.interpolation)

    def box(self, height: int, width: int, chance: list[float]) -> tuple[int, int, int, int]:
        """(top, left, height, width): the first try that fits, or the middle."""
        down, right = chance[2 * TRIES :]
        least, most = self.area
        for share, stretch in zip(chance[:TRIES], chance[TRIES : 2 * TRIES], strict=True):
            area = height * width * (least + share * (most - least))
            aspect = (4 / 3) ** (2 * stretch - 1)
            rows, columns = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
            if 0 < rows <= height and 0 < columns <= width:
                return int(down * (height - rows + 1)), int(right * (width - columns + 1)), rows, columns
        rows, columns = min(height, round(width * 4 / 3)), min(width, round(height * 4 / 3))
        return (height - rows) // 2, (width - columns) // 2, rows, columns


def resized(image: Tensor, size: tuple[int, int], interpolation: str) -> Tensor:
    """(channels, h, w) uint8 at `size`, with antialias."""
    return F.interpolate(image[None], size=size, mode=interpolation, antialias=True)[0]
