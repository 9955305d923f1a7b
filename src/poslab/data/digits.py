"""1,797 handwritten digits of scikit-learn: small enough for tests."""

from __future__ import annotations

from typing import Any

import torch

from .images import ImageData, ImageSplit
from .splits import stratified


class Digits(ImageData):
    """8x8 grey images, 10 classes: 1,257 to train, 180 to validate, 360 to test.

    UCI's optical recognition of handwritten digits (Alpaydin & Kaynak 1998), its test part. Split by
    order within each class, as `MNIST5k`. Other arguments are those of `ImageData`.
    """

    def __init__(self, **options: Any) -> None:
        from sklearn.datasets import load_digits  # costs seconds: only where it is used

        digits = load_digits()
        images = torch.from_numpy(digits.images * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(digits.target).long()
        test, val, train = (
            ImageSplit(images[index], labels[index]) for index in stratified(digits.target, (360, 180, 1257))
        )
        super().__init__(train, val, test, classes=10, **options)
