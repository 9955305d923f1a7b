"""Fashion-MNIST and MNIST from their own files, in the IDX format."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .images import ImageData, ImageSplit
from .splits import check_labels, held_out

FILES = "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz"


class FashionMNIST(ImageData):
    """28x28 grey images of clothes, 10 classes: 55,000 to train, 5,000 to validate, the official 10,000 to test.

    Xiao, Rasul & Vollgraf 2017. The last 500 of each class in the training files validate.

    Args:
        root: where the four files are, or a folder of torchvision's, which has them in FashionMNIST/raw;
            those of Debian's package are found by themselves.
        validate: held out from the official training images; None: a twentieth.
        limit: images to train on, equally many of each class; None: all that are left.
        Others are those of `ImageData`. FileNotFoundError where a file is missing, ValueError where one is broken.
    """

    word, folder = "fashion_mnist", "FashionMNIST"
    package: Path | None = Path("/usr/share/datasets/fashion-mnist")
    install = "apt-get install dataset-fashion-mnist, or "
    source = "https://github.com/zalandoresearch/fashion-mnist"
    megabytes = 30

    def __init__(
        self, root: str = "data", validate: int | None = 5000, limit: int | None = None, **options: Any
    ) -> None:
        images, labels = self._read(root, "train")
        train, val = held_out(labels.numpy(), validate, limit)
        splits = [ImageSplit(images[index], labels[index]) for index in (train, val)]
        super().__init__(*splits, ImageSplit(*self._read(root, "t10k")), classes=10, **options)

    def _read(self, root: str, part: str) -> tuple[Tensor, Tensor]:
        """Images (N, 1, 28, 28) uint8 and labels (N,) int64 of "train" or "t10k"."""
        images, labels = self._find(root, f"{part}-images-idx3-ubyte"), self._find(root, f"{part}-labels-idx1-ubyte")
        pixels, classes = read_idx(images, axes=3)[:, None], read_idx(labels, axes=1).long()
        if len(pixels) != len(classes):
            raise ValueError(f"{images} has {len(pixels):,} images, {labels} {len(classes):,} labels: replace both.")
        check_labels(classes.numpy(), 10, str(labels))
        return pixels, classes

    def _find(self, root: str, name: str) -> Path:
        folders = [Path(root), Path(root) / self.folder / "raw", *([self.package] if self.package else [])]
        for folder in folders:
            for path in (folder / name, folder / f"{name}.gz"):
                if path.exists():
                    return path
        raise FileNotFoundError(
            f"data={self.word} needs {name}.gz: {self.install}put {FILES} ({self.megabytes} MB) from {self.source} "
            f"into {folders[1]}, or say where they are with data.root=FOLDER."
        )


class MNIST(FashionMNIST):
    """28x28 grey images of digits, 10 classes: 55,000 to train, 5,000 to validate, the official 10,000 to test.

    LeCun, Bottou, Bengio & Haffner 1998. Everything else is as in `FashionMNIST`.
    """

    word, folder = "mnist", "MNIST"
    package = None
    install = ""
    source = "https://ossci-datasets.s3.amazonaws.com/mnist"
    megabytes = 12


def read_idx(path: Path, axes: int) -> Tensor:
    """The uint8 array of an IDX file (LeCun's format), gzipped or not; ValueError where it is broken."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        if content[:4] != bytes((0, 0, 8, axes)):
            raise ValueError(f"it is no array of bytes with {axes} axes")
        shape = np.frombuffer(content, ">u4", count=axes, offset=4)
        return torch.from_numpy(np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape).copy())
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as an IDX file: {error}. Replace it.") from error
