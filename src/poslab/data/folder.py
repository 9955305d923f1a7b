"""Your own images, ImageNet and its hundred classes: a folder for each class, with its images in it."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..optional import need
from .decoded import DecodedData


class ImageFolder(DecodedData):
    """root/train/CLASS/*.jpg and root/val/CLASS/*.jpg: torchvision's layout, images of any size.

    The classes are the folders of `train`, in alphabetical order. Images of `test` test, and a part of `train`
    validates, so that the choice of a checkpoint never sees a test image.

    Args:
        root: the folder above. train, test: the folders in it.
        Others are those of `DecodedData`. FileNotFoundError where a folder or every image in it is missing.
    """

    word = "imagefolder"
    layout = "Images lie in {root}/{train}/CLASS/NAME.jpg and {root}/{test}/CLASS/NAME.jpg"
    chosen: frozenset[str] = frozenset()  # of the class folders; none: all

    def __init__(self, root: str, train: str = "train", test: str = "val", **options: Any) -> None:
        need("torchvision", f"data={self.word}")
        layout = self.layout.format(root=root, train=train, test=test)
        (images, classes), (test_images, test_classes) = (
            self._read(Path(root) / part, layout) for part in (train, test)
        )
        if classes != test_classes:
            differing = ", ".join(sorted(set(classes) ^ set(test_classes))[:5])
            raise ValueError(f"{root}: {train} and {test} have not the same classes, one lacks {differing}.")
        super().__init__(images, test_images, len(classes), **options)

    def _read(self, folder: Path, layout: str) -> tuple[ImageFiles, list[str]]:
        """The images of a split, and its classes."""
        from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes, make_dataset

        try:
            classes = [name for name in find_classes(folder)[0] if name in self.chosen or not self.chosen]
            if missing := self.chosen - set(classes):
                raise FileNotFoundError(f"no folder {min(missing)}")
            samples = make_dataset(folder, {name: number for number, name in enumerate(classes)}, IMG_EXTENSIONS)
        except FileNotFoundError as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise FileNotFoundError(f"data={self.word} finds no images in {folder} ({reason}). {layout}.") from error
        return ImageFiles(samples), classes


class ImageNet(ImageFolder):
    """ImageNet-1k: 1.28 million photographs of 1,000 classes, Russakovsky et al. 2015.

    The labels of its test images are secret: its 50,000 validation images test.
    """

    word = "imagenet"
    layout = (
        "Unpack ILSVRC2012_img_train.tar (138 GB) and ILSVRC2012_img_val.tar (6 GB), both from image-net.org "
        "with an account, to {root}/{train}/n01440764/NAME.JPEG and {root}/{test}/n01440764/NAME.JPEG, or say where "
        "they are with data.root=FOLDER. From the Hub, with a token: data=hub data.name=ILSVRC/imagenet-1k "
        "data.test=validation"
    )


class ImageNet100(ImageNet):
    """The 100 classes of ImageNet that Tian, Krishnan & Isola 2020 (CMC) chose, out of ImageNet's folders.

    Other folders beside them are passed over.
    """

    word = "imagenet100"
    chosen = frozenset(files(__package__).joinpath("imagenet100.txt").read_text().split())


class ImageFiles:
    """Paths and labels. The paths are an array: Python strings would be copied into every worker, one by one."""

    def __init__(self, samples: list[tuple[str, int]]) -> None:
        self.paths = np.array([os.fsencode(path) for path, _ in samples])
        self.labels = np.array([label for _, label in samples])

    def name(self, number: int) -> str:
        return os.fsdecode(self.paths[number])

    def read(self, number: int) -> bytes:
        return Path(self.name(number)).read_bytes()
