"""RandAugment: a few operations drawn at random, all of one strength. Cubuk, Zoph, Shlens & Le 2020."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

BINS = 30  # magnitudes are 0 ... 30


def operations(magnitude: float, height: int, width: int) -> list[Callable[[Tensor, int], Tensor]]:
    """The paper's fourteen, scaled as in torchvision: each takes images (N, channels, h, w) uint8 and a sign."""
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as T

    def moved(x: Tensor, right: float = 0.0, down: float = 0.0) -> Tensor:
        return T.affine(x, 0.0, [int(right), int(down)], 1.0, [0.0, 0.0], InterpolationMode.BILINEAR)

    def sheared(x: Tensor, *tangents: float) -> Tensor:
        angles = [math.degrees(math.atan(tangent)) for tangent in tangents]
        return T.affine(x, 0.0, [0, 0], 1.0, angles, InterpolationMode.BILINEAR, center=[0, 0])

    level = magnitude / BINS
    shear, shift, factor = 0.3 * level, 150 / 331 * level, 0.9 * level
    return [
        lambda x, sign: x,
        lambda x, sign: sheared(x, sign * shear, 0.0),
        lambda x, sign: sheared(x, 0.0, sign * shear),
        lambda x, sign: moved(x, right=sign * shift * width),
        lambda x, sign: moved(x, down=sign * shift * height),
        lambda x, sign: T.rotate(x, sign * 30 * level, InterpolationMode.BILINEAR),
        lambda x, sign: T.adjust_brightness(x, 1 + sign * factor),
        lambda x, sign: T.adjust_saturation(x, 1 + sign * factor),
        lambda x, sign: T.adjust_contrast(x, 1 + sign * factor),
        lambda x, sign: T.adjust_sharpness(x, 1 + sign * factor),
        lambda x, sign: T.posterize(x, 8 - round(4 * level)),
        lambda x, sign: T.solarize(x, 255 * (1 - level)),
        lambda x, sign: T.autocontrast(x),
        lambda x, sign: T.equalize(x),
    ]


def rand_augment(images: Tensor, chance: Tensor, magnitude: float) -> Tensor:
    """(B, channels, h, w) uint8 after as many operations as `chance` (B, count, 2), in [0, 1), has numbers for.

    As the strength is one, images that drew the same operation and sign are changed together.
    """
    known = operations(magnitude, *images.shape[-2:])
    images = images.clone()
    for which, side in zip((chance[..., 0] * len(known)).long().T, (chance[..., 1] < 0.5).T, strict=True):
        for number, operation in enumerate(known):
            for sign in (-1, 1):
                rows = (which == number) & (side == (sign < 0))
                if rows.any():
                    images[rows] = operation(images[rows], sign)
    return images
