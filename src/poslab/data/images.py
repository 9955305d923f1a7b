"""Images in memory: uint8 until they are batched, resized by one function of the size."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .augmentation import Augmentation
from .order import Chance


@dataclass(frozen=True)
class ImageSplit:
    """Images (N, channels, height, width) uint8 with labels (N,) int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of an image."""
        return tuple(self.images.shape[1:])  # type: ignore[return-value]

    def at(self, size: tuple[int, int]) -> ImageSplit:
        """The same images for a model that reads `size`: these are resized afterwards, by `ImageData.prepare`."""
        return self

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the pixels in [0, 1], (channels,) each."""
        x = self.images.float() / 255
        return x.mean((0, 2, 3)), x.std((0, 2, 3))

    def digest(self) -> bytes:
        """A hash of all images and labels, in their order."""
        digest = hashlib.sha256(self.images.numpy().tobytes())
        digest.update(self.labels.numpy().tobytes())
        return digest.digest()

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        """The batch at `index` (B,); an index of -1 pads with weight 0, so that it counts nowhere."""
        weight = index >= 0
        index = index.clamp(min=0)
        return {"images": self.images[index], "labels": self.labels[index], "weight": weight}


class ImageData:
    """Three splits of images and how they become floats of a given size.

    Args:
        train, val, test: an `ImageSplit`, or what does the same: `split[index]` is a batch of uint8 images,
            `split.at(size)` the split as it is read at another size.
        size: pixels in training, one number or (rows, columns); None is the images' own size.
        mean, std: of the pixels in [0, 1], a number a channel; None measures them on the training images.
        Others are those of `Augmentation`, for training.

    Evaluation resizes the whole image (crop ratio 1) bilinearly with antialias; at the image's own
    size the pixels are untouched.
    """

    kind = "image"
    preprocessing = "whole image (crop ratio 1), bilinear, antialias"

    def __init__(
        self,
        train: Any,
        val: Any,
        test: Any,
        classes: int,
        size: int | Sequence[int] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        **augmentation: Any,
    ) -> None:
        self.train, self.val, self.test, self.classes = train, val, test, classes
        self.channels = train.shape[0]
        self.size = as_size(train.shape[1:] if size is None else size)
        measured = train.statistics() if mean is None or std is None else (mean, std)
        self.mean, self.std = (torch.as_tensor(each)[:, None, None] for each in measured)
        self.augmentation = Augmentation(**augmentation)

    def prepare(self, images: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """uint8 (B, channels, h, w) -> float32 around zero at `size`, by default the training size."""
        return self._normalised(pixels(images, size or self.size))

    def augmented(self, batch: dict[str, Tensor], chance: Chance) -> dict[str, Tensor]:
        """A batch of `train` as a model learns from it: "images" as `prepare` makes them, and "targets"
        (B, classes), probabilities, where images were mixed."""
        how = self.augmentation
        x = how.of_pixels(pixels(how.of_files(batch["images"], chance), self.size), chance)
        x = how.of_inputs(self._normalised(x), self.background(x.device), chance)
        x, targets = how.mix(x, batch["labels"], self.classes, chance)
        return batch | {"images": x} | ({} if targets is None else {"targets": targets})

    def _normalised(self, x: Tensor) -> Tensor:
        return (x - self.mean.to(x.device)) / self.std.to(x.device)

    def background(self, device: torch.device) -> Tensor:
        """(channels, 1, 1): what black is after `prepare`, and what comes in where an image is moved."""
        return (-self.mean / self.std).to(device)

    def fingerprint(self) -> str:
        """A hash of the test split."""
        return self.test.digest().hex()[:16]


def pixels(images: Tensor, size: tuple[int, int]) -> Tensor:
    """uint8 (B, channels, h, w) -> float32 in [0, 1] at `size`; at their own size nothing is resampled."""
    x = images.float() / 255
    if tuple(x.shape[-2:]) != tuple(size):
        x = F.interpolate(x, size=size, mode="bilinear", antialias=True)
    return x


def as_size(size: int | Sequence[int]) -> tuple[int, int]:
    """(rows, columns) of one number or two."""
    rows, columns = (size, size) if isinstance(size, int) else size
    return rows, columns
