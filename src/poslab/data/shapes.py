"""Pictures that are drawn, at whatever size is asked for: a resolution study in which nothing is resampled."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .images import ImageData, as_size
from .synthetic import Draw

FINE = 2**20  # steps of a coordinate


@dataclass(frozen=True)
class Scenes:
    """Numbered pictures of one stream, drawn at `size`; a batch of indices picks some, -1 pads with weight 0."""

    samples: int
    stream: int
    size: tuple[int, int]
    directions: int

    def __len__(self) -> int:
        return self.samples

    @property
    def shape(self) -> tuple[int, int, int]:
        return (1, *self.size)

    def at(self, size: tuple[int, int]) -> Scenes:
        """The same pictures, drawn at `size`."""
        return replace(self, size=size)

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        scene = self.scene(index.clamp(min=0))
        return {"images": self.draw(scene), "labels": scene["direction"], "weight": index >= 0}

    def scene(self, index: Tensor) -> dict[str, Tensor]:
        """Integers (B,): the direction, and where within their ranges the others lie, in 0 ... FINE - 1."""
        draw = Draw(index, self.stream)
        fine = draw.symbols(6, FINE).T
        names = ("angle", "distance", "across", "down", "radius", "light")
        return {"direction": draw.symbols(1, self.directions)[:, 0], **dict(zip(names, fine, strict=True))}

    def draw(self, scene: dict[str, Tensor]) -> Tensor:
        """(B, 1, rows, columns) uint8: a disc, and a square half as bright, on black, with edges one pixel wide."""
        part = {name: (value.double() + 0.5) / FINE for name, value in scene.items() if name != "direction"}
        sector = 2 * math.pi / self.directions
        # a third of each sector is left out on either side of its border, where nobody could tell
        angle = sector * (scene["direction"] + (part["angle"] - 0.5) / 3)
        reach = 0.45 + 0.15 * part["distance"]
        right, down = reach * angle.cos() / 2, reach * angle.sin() / 2
        radius = 0.08 + 0.02 * part["radius"]
        # the middle between the two lies anywhere that leaves both inside
        room = [0.5 - half.abs() - radius for half in (right, down)]
        across, below = (0.5 + (2 * part[name] - 1) * side for name, side in zip(("across", "down"), room, strict=True))
        rows, columns = self.size
        y = ((torch.arange(rows) + 0.5) / rows)[:, None]
        x = (torch.arange(columns) + 0.5) / columns

        def away(sign: int) -> tuple[Tensor, Tensor]:
            """Of each pixel from the disc (1) or the square (-1)."""
            place = ((below + sign * down)[:, None, None], (across + sign * right)[:, None, None])
            return y - place[0], x - place[1]

        radius = radius[:, None, None]
        disc = torch.hypot(*away(1)) - radius
        dy, dx = away(-1)
        square = torch.maximum(dy.abs(), dx.abs()) - radius * math.sqrt(math.pi) / 2  # of the same area
        bright, dim = ((0.5 - each * math.sqrt(rows * columns)).clamp(0, 1) for each in (disc, square))
        light = 0.5 + 0.5 * part["light"][:, None, None]
        return (255 * light * torch.maximum(bright, dim / 2)).round().to(torch.uint8)[:, None]

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the pixels in [0, 1], (1,) each, over up to 1,024 pictures."""
        x = self[torch.arange(min(self.samples, 1024))]["images"].float() / 255
        return x.mean((0, 2, 3)), x.std((0, 2, 3))

    def digest(self) -> bytes:
        """A hash of the numbers that decide the pictures: pixels are rounded, and not everywhere alike."""
        numbers = torch.stack([*self.scene(torch.arange(self.samples)).values()])
        return hashlib.sha256(numbers.numpy().tobytes()).digest()


class Shapes(ImageData):
    """A disc and a square of the same area, half as bright, on black: in which direction lies the disc?

    Every class has the same two shapes in it, as large, as bright and anywhere, further apart than a patch of 4 is
    wide at 32 pixels: without positions the patches of all classes are alike, and a model can only guess. Samples are
    functions of their number and the split, drawn natively at each size. What a resolution study changes is
    then the number of pixels and patches alone, without the blur of a resized photograph.

    Args:
        directions: classes; class d is at 360 d / directions degrees, 0 to the right, turning downwards.
        samples: pictures that make an epoch; 1,000 others validate and 1,000 test.
        size: pixels in training, one number or (rows, columns). Others are those of `ImageData`.
            Augmentation that turns or mirrors changes what is right: there is none by default.
    """

    preprocessing = "drawn at each size (whole picture, crop ratio 1)"

    def __init__(
        self, directions: int = 8, samples: int = 4000, size: int | Sequence[int] = 32, **options: Any
    ) -> None:
        if directions < 2:
            raise ValueError(f"data.directions={directions}: use 2 or more, of which one is right.")
        counts = (samples, 1000, 1000)
        splits = [Scenes(count, stream, as_size(size), directions) for stream, count in enumerate(counts)]
        super().__init__(*splits, classes=directions, **options)
