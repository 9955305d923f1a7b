"""CIFAR-10 and CIFAR-100, as torchvision keeps them."""

from __future__ import annotations

from typing import Any

import torch

from ..optional import need
from .images import ImageData, ImageSplit
from .splits import held_out


class CIFAR10(ImageData):
    """32x32 colour images, 10 classes: 45,000 to train, 5,000 to validate, the official 10,000 to test.

    Krizhevsky 2009. The last of each class in the training files validate.

    Args:
        root: torchvision's folder. validate: held out from the official training images; None: a twentieth.
        limit: images to train on, equally many of each class; None: all that are left.
        Others are those of `ImageData`. FileNotFoundError where the files are not there or not whole.
    """

    name, labels, archive, megabytes = "CIFAR10", 10, "cifar-10-python.tar.gz", 170

    def __init__(
        self, root: str = "data", validate: int | None = 5000, limit: int | None = None, **options: Any
    ) -> None:
        official, test = self._read(root, train=True), self._read(root, train=False)
        train, val = held_out(official.labels.numpy(), validate, limit)
        splits = [ImageSplit(official.images[index], official.labels[index]) for index in (train, val)]
        super().__init__(*splits, test, classes=self.labels, **options)

    def _read(self, root: str, train: bool) -> ImageSplit:
        word = self.name.lower()
        need("torchvision", f"data={word}")
        from torchvision import datasets

        try:
            files = getattr(datasets, self.name)(root, train=train)  # which compares their hashes
        except RuntimeError as error:
            raise FileNotFoundError(
                f"data={word} finds no {self.archive} ({self.megabytes} MB), or not all of it, unpacked in {root}: "
                f"python -c \"from torchvision.datasets import {self.name}; {self.name}('{root}', download=True)\" "
                "brings it from www.cs.toronto.edu/~kriz; data.root=FOLDER says where else it is."
            ) from error
        return ImageSplit(torch.from_numpy(files.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(files.targets))


class CIFAR100(CIFAR10):
    """32x32 colour images, 100 classes: 45,000 to train, 5,000 to validate, the official 10,000 to test.

    Krizhevsky 2009. Everything else is as in `CIFAR10`.
    """

    name, labels, archive, megabytes = "CIFAR100", 100, "cifar-100-python.tar.gz", 169
