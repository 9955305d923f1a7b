"""Images in files: decoded, cropped and resized as they are asked for, by the processes that make batches."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.pool import ThreadPool
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ..errors import UsageError
from .images import ImageData, as_size
from .splits import check_labels, held_out
from .views import TRIES, CentreCrop, RandomCrop

FINGERPRINTED = 256  # images whose bytes are hashed: all of ImageNet's would be 6 GB to read before each run


class Encoded(Protocol):
    """Where the bytes of images come from."""

    labels: np.ndarray  # (N,) integers

    def read(self, number: int) -> bytes: ...

    def name(self, number: int) -> str:
        """What a person finds the image by."""


@dataclass(frozen=True)
class DecodedSplit:
    """The images `index` of `source`, as `view` sees them; in training, where chance is given, as `random` does.

    UsageError, when it is asked for, at an image that cannot be decoded: one that is passed over in silence
    would change what is compared.
    """

    source: Encoded
    index: np.ndarray
    view: CentreCrop
    random: RandomCrop | None = None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def shape(self) -> tuple[int, int, int]:
        return (3, *self.view.size)

    @property
    def chances(self) -> int:
        """Random numbers that a training image takes."""
        return 2 * TRIES + 2 if self.random else 0

    def at(self, size: tuple[int, int]) -> DecodedSplit:
        """The same images, read at `size`."""
        return replace(self, view=replace(self.view, size=size), random=None)

    def __getitem__(self, asked: Tensor | tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """The batch at an index (B,), where -1 pads with weight 0; in training with chances (B, `chances`)."""
        index, chance = asked if isinstance(asked, tuple) else (asked, [None] * len(asked))
        numbers = self.index[index.clamp(min=0).numpy()]
        # decoding lets go of Python's lock. Torch has one thread in a worker, all in the main process
        with ThreadPool(min(torch.get_num_threads(), len(numbers))) as pool:
            images = pool.starmap(self._image, zip(numbers.tolist(), chance, strict=True))
        labels = torch.from_numpy(self.source.labels[numbers]).long()
        return {"images": torch.stack(images), "labels": labels, "weight": index >= 0}

    def _image(self, number: int, chance: Tensor | None) -> Tensor:
        image = decode(self.source.read(number), self.source.name(number))
        return self.view(image) if self.random is None or chance is None else self.random(image, chance)

    def digest(self) -> bytes:
        """A hash of all labels and of the files of up to `FINGERPRINTED` images, spread evenly."""
        digest = hashlib.sha256(self.source.labels[self.index].astype(np.int64).tobytes())
        for place in np.unique(np.linspace(0, len(self) - 1, FINGERPRINTED).round().astype(int)):
            digest.update(hashlib.sha256(self.source.read(int(self.index[place]))).digest())
        return digest.digest()


def decode(content: bytes, name: str) -> Tensor:
    """(3, height, width) uint8 of an image file; UsageError where it is none, or broken."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = "it is no image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise UsageError(f"{name} cannot be decoded ({reason}): replace it, or take it out of the data set.") from error


class DecodedData(ImageData):
    """Colour images of any size in files, read when they are needed.

    Args:
        train, test: where their bytes come from. classes: the number of them; labels are 0 ... classes - 1.
        validate: images held out of `train` to validate; None: a twentieth.
        limit: images to train on, equally many of each class; None: all that are left.
        size: pixels in training, one number or (rows, columns).
        area: smallest and largest share of an image that a random crop in training takes, see `RandomCrop`;
            None: the crop of evaluation.
        crop: share of the shorter side that evaluation looks at, see `CentreCrop`.
        interpolation: bicubic or bilinear, in training and evaluation.
        mean, std: of the pixels in [0, 1], a number a channel, by default ImageNet's. Others are those of `ImageData`.
    """

    def __init__(
        self,
        train: Encoded,
        test: Encoded,
        classes: int,
        validate: int | None = None,
        limit: int | None = None,
        size: int | Sequence[int] = 224,
        area: Sequence[float] | None = None,
        crop: float = 1.0,
        interpolation: str = "bicubic",
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
        **options: Any,
    ) -> None:
        if not 0 < crop <= 1:
            raise ValueError(f"data.crop={crop} is a share of the image: choose one above 0, and 1 for all of it.")
        if area is not None and not 0 < area[0] <= area[1] <= 1:
            raise ValueError(f"data.area={list(area)} are two shares of the image, such as [0.08,1].")
        for source, name in ((train, "training"), (test, "test")):
            check_labels(source.labels, classes, f"The {name} split")
        view = CentreCrop(as_size(size), crop, interpolation)
        random = RandomCrop(view.size, (area[0], area[1]), interpolation) if area is not None else None
        chosen, held = held_out(train.labels, validate, limit)
        super().__init__(
            DecodedSplit(train, chosen, view, random),
            DecodedSplit(train, held, view),
            DecodedSplit(test, np.arange(len(test.labels)), view),
            classes,
            mean=mean,
            std=std,
            **options,
        )
        self.preprocessing = view.protocol
