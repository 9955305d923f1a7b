"""Two images in one, and labels that say how much of each: mixup and CutMix.

An image's partner is its neighbour in the step (0 and 1, 2 and 3, ...), which is on the same device however
a step is divided into even parts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import UsageError
from .augment import boxes


def neighbours(x: Tensor) -> Tensor:
    """x (B, ...) with 0 and 1, 2 and 3, ... exchanged. UsageError where one is left over."""
    if len(x) % 2:
        raise UsageError(
            f"mixup and cutmix pair images, and a device takes {len(x)} at once: choose an even global_batch_size, "
            "or device_batch_size, or data.mixup=0 data.cutmix=0."
        )
    return x.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def mixup(x: Tensor, share: Tensor) -> Tensor:
    """share * x + (1 - share) * neighbour, x (B, channels, h, w), share (B,). Zhang et al. 2018."""
    share = share[:, None, None, None]
    return share * x + (1 - share) * neighbours(x)


def cutmix(x: Tensor, share: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
    """A box of the neighbour in x, and the share (B,) that is left of x itself. Yun et al. 2019.

    The box has the image's shape and about 1 - `share` (B,) of its area; its middle is anywhere in the image,
    `chance` (B, 2), so that a part may be cut off.
    """
    side = (1 - share).sqrt()
    inside = boxes(x, side, side, chance, whole=False)
    return torch.where(inside, neighbours(x), x), 1 - inside.float().mean((1, 2, 3))
