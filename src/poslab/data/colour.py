"""Colours changed at random, each image in its own way, for a whole batch at once. Pixels are in [0, 1]."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def colour_jitter(x: Tensor, chance: Tensor, strength: float) -> Tensor:
    """Brightness, contrast and saturation of x (B, channels, h, w), in this order, times 1 - strength ... 1 + strength.

    As torchvision's, which shuffles the order. chance: (B, 3) in [0, 1).
    """
    brightness, contrast, saturation = (1 + strength * (2 * chance - 1)).T[..., None, None, None]
    x = (x * brightness).clamp(0, 1)
    x = mixed_with(grey(x).mean((1, 2, 3), keepdim=True), x, contrast)
    return mixed_with(grey(x), x, saturation)


def three_augment(x: Tensor, chance: Tensor) -> Tensor:
    """One of grey, solarised or blurred, equally often. Touvron, Cord & Jegou 2022 (DeiT III), section 3.

    Solarised: what is brighter than one half is inverted. Blurred: by a Gaussian of 0.1 ... 2 pixels.
    x: (B, channels, h, w). chance: (B, 2) in [0, 1).
    """
    which = (3 * chance[:, 0]).long()[:, None, None, None]
    changed = torch.where(which == 0, grey(x), torch.where(x >= 0.5, 1 - x, x))
    return torch.where(which == 2, blurred(x, 0.1 + 1.9 * chance[:, 1]), changed)


def grey(x: Tensor) -> Tensor:
    """(B, 1, h, w): luma of ITU-R 601, as PIL's; an image with one channel is grey already."""
    if x.shape[1] == 1:
        return x
    weights = torch.tensor([0.299, 0.587, 0.114], device=x.device)
    return (x * weights[:, None, None]).sum(1, keepdim=True)


def mixed_with(other: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    return (factor * x + (1 - factor) * other).clamp(0, 1)


def blurred(x: Tensor, sigma: Tensor) -> Tensor:
    """x (B, channels, h, w) under a Gaussian of sigma (B,) pixels, cut off at 6; edges are continued."""
    batch, channels, height, width = x.shape
    offset = torch.arange(-6, 7, device=x.device)
    kernel = torch.exp(-0.5 * (offset / sigma[:, None]) ** 2)
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(channels, 0)[:, None]
    planes = F.pad(x.reshape(1, batch * channels, height, width), (6, 6, 6, 6), mode="replicate")
    with torch.autocast(x.device.type, enabled=False):  # half precision has fewer than the 256 levels of a pixel
        planes = F.conv2d(planes, kernel[..., None], groups=batch * channels)
        return F.conv2d(planes, kernel[:, :, None], groups=batch * channels).view_as(x)
