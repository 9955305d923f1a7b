"""Where pixels are, changed at random: affine maps and erased boxes, one for each image, a whole batch at once."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def random_affine(x: Tensor, chance: Tensor, rotate: float, translate: float, scale: float) -> Tensor:
    """Turn, move and stretch images x (B, channels, h, w); what comes in from outside is 0.

    Args:
        chance: (B, 5) in [0, 1), what decides.
        rotate: at most this many degrees to either side.
        translate: at most this fraction of the image along each axis.
        scale: sides stretched by 1 - scale ... 1 + scale, each axis on its own.
    """
    draw = chance * 2 - 1
    angle = draw[:, 0] * math.radians(rotate)
    stretch = 1 + draw[:, 1:3] * scale
    shift = draw[:, 3:5] * 2 * translate  # affine_grid measures in half sides
    cos, sin = angle.cos(), angle.sin()
    aspect = x.shape[-2] / x.shape[-1]
    row_x = torch.stack((cos / stretch[:, 0], -sin * aspect / stretch[:, 0], shift[:, 0]), dim=1)
    row_y = torch.stack((sin / aspect / stretch[:, 1], cos / stretch[:, 1], shift[:, 1]), dim=1)
    with torch.autocast(x.device.type, enabled=False):  # coordinates in half precision would move whole pixels
        grid = F.affine_grid(torch.stack((row_x, row_y), dim=1), list(x.shape), align_corners=False)
        # bicubic: a bilinear blur, which test images do not have, cost 0.6 % of MNIST's test accuracy
        return F.grid_sample(x, grid, mode="bicubic", padding_mode="zeros", align_corners=False)


def erase(x: Tensor, chance: Tensor, probability: float) -> Tensor:
    """A box of x (B, channels, h, w) is 0 in so many of the images. Zhong et al. 2020, with the mean as filling.

    It covers 2 to 33 % of the image, and is 0.3 to 3.3 times as high as wide. chance: (B, 5) in [0, 1).
    """
    area = 0.02 + (1 / 3 - 0.02) * chance[:, 1]
    aspect = torch.exp((2 * chance[:, 2] - 1) * math.log(3.3))
    inside = boxes(x, (area * aspect).sqrt(), (area / aspect).sqrt(), chance[:, 3:5], whole=True)
    return x.masked_fill(inside & (chance[:, 0] < probability)[:, None, None, None], 0)


def boxes(x: Tensor, height: Tensor, width: Tensor, chance: Tensor, whole: bool) -> Tensor:
    """(B, 1, h, w) True inside a box in each image of x; its sides (B,) are fractions of the image's.

    chance (B, 2) puts it anywhere: the box within the image where it is `whole`, else only its middle.
    """
    inside = []
    for axis, (length, side) in enumerate(zip(x.shape[-2:], (height, width), strict=True)):
        pixels = (side.clamp(max=1) * length).round()
        room = length - pixels if whole else length
        first = (chance[:, axis] * (room + whole)).floor() - (0 if whole else (pixels / 2).floor())
        place = torch.arange(length, device=x.device)
        inside.append((place >= first[:, None]) & (place < (first + pixels)[:, None]))
    rows, columns = inside
    return (rows[:, :, None] & columns[:, None])[:, None]
