"""Batches as `train.py` makes them, and as they are commonly made: item by item."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from poslab.data.images import ImageData
from poslab.data.mnist5k import MNIST5k
from poslab.data.module import Loaders
from poslab.data.order import Training
from poslab.data.stdlib import Stdlib

from .pairs import Contestant

AFFINE = {"rotate": 10.0, "translate": 0.07, "scale": 0.1}  # configs/data/mnist5k.yaml
IMAGES = 64  # a batch
SEQUENCES, CONTEXT = 32, 256


def timed(work: Callable[[], Any]) -> Contestant:
    def run() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return run


def images(batches: int) -> tuple[Contestant, Contestant]:
    """Digits turned, moved and stretched at random, then normalised."""
    data = MNIST5k(**AFFINE)
    order = Training(len(data.train), IMAGES, IMAGES, batches, seed=0)

    def together() -> None:
        loader = Loaders(data, order, IMAGES).train_dataloader()
        for number, batch in enumerate(loader):
            data.augmented(batch, order.chance(number))

    items = DataLoader(Items(data), batch_size=IMAGES, shuffle=True)
    return timed(together), timed(lambda: list(islice(items, batches)))


class Items(Dataset[tuple[Tensor, int]]):
    """The same images and augmentation one by one, with torchvision, as its tutorials do it."""

    def __init__(self, data: ImageData) -> None:
        from torchvision import transforms

        turn, move, stretch = AFFINE.values()
        self.images, self.labels = data.train.images, data.train.labels.tolist()
        self.transform = transforms.Compose(
            [
                transforms.ToPILImage(),
                transforms.RandomAffine(
                    turn, (move, move), (1 - stretch, 1 + stretch), interpolation=transforms.InterpolationMode.BICUBIC
                ),
                transforms.ToTensor(),
                transforms.Normalize(data.mean.flatten().tolist(), data.std.flatten().tolist()),
            ]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), self.labels[index]


def text(batches: int) -> tuple[Contestant, Contestant]:
    """Bytes of source code, with their successors as targets."""
    data = Stdlib(CONTEXT)
    order = Training(len(data.train), SEQUENCES, SEQUENCES, batches, seed=0)
    folder = tempfile.TemporaryDirectory()  # gone with the last use of `single`
    two_bytes = data.train.stream.astype(np.uint16)  # a token, as nanoGPT has them
    two_bytes.tofile(Path(folder.name) / "train.bin")

    def together() -> None:
        for _ in Loaders(data, order, SEQUENCES).train_dataloader():
            pass

    def single() -> None:
        for _ in range(batches):
            one_by_one(Path(folder.name) / "train.bin")

    return timed(together), timed(single)


def one_by_one(path: Path) -> tuple[Tensor, Tensor]:
    """A batch from random places, mapped anew each time and cut out in a Python loop, after nanoGPT's get_batch."""
    stream = np.memmap(path, dtype=np.uint16, mode="r")
    starts = torch.randint(len(stream) - CONTEXT, (SEQUENCES,)).tolist()
    cut = [torch.from_numpy(stream[start : start + CONTEXT + 1].astype(np.int64)) for start in starts]
    return torch.stack([each[:-1] for each in cut]), torch.stack([each[1:] for each in cut])
