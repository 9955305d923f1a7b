"""Image sets are read by their real code from small files that are made here; nothing is downloaded."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from poslab.data.idx import MNIST, FashionMNIST, read_idx
from poslab.data.splits import held_out
from poslab.errors import UsageError
from poslab.training.fit import fit
from tests.configuration import VIT, configuration


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


@pytest.fixture
def clothes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Fashion-MNIST of 80 training images (each says its number) and 20 test images, as torchvision lays it out."""
    monkeypatch.setattr(FashionMNIST, "package", tmp_path / "nothing")
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 80), ("t10k", 20)):
        pixels = np.zeros((count, 28, 28), np.uint8)
        pixels[:, 3, 5] = np.arange(count)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(pixels))
        labels = (np.arange(count) % 10).astype(np.uint8)
        (raw / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return tmp_path


def numbers(split: object) -> list[int]:
    return split.images[:, 0, 3, 5].tolist()  # type: ignore[attr-defined]


def test_idx_files_keep_pixels_labels_and_the_official_test(clothes: Path) -> None:
    data = FashionMNIST(str(clothes), validate=20)
    assert data.train.images.shape == (60, 1, 28, 28) and data.size == (28, 28) and data.channels == 1
    assert numbers(data.train) == [*range(60)] and numbers(data.val) == [*range(60, 80)]
    assert numbers(data.test) == [*range(20)]
    for split in (data.train, data.val, data.test):
        assert torch.equal(split.labels, split.images[:, 0, 3, 5].long() % 10)
    (clothes / "FashionMNIST").rename(clothes / "MNIST")
    assert MNIST(str(clothes), validate=20).fingerprint() == data.fingerprint()
    assert FashionMNIST(str(clothes / "MNIST" / "raw"), validate=20).fingerprint() == data.fingerprint()


def test_the_images_of_a_small_study_are_among_those_of_a_larger_one(clothes: Path) -> None:
    seen: set[int] = set()
    for limit in (10, 30, 60, None):
        data = FashionMNIST(str(clothes), validate=20, limit=limit)
        assert seen <= set(numbers(data.train)) and len(data.train) == (limit or 60)
        assert torch.equal(data.train.labels.bincount(), torch.full((10,), len(data.train) // 10))
        assert numbers(data.val) == [*range(60, 80)]
        seen = set(numbers(data.train))
    with pytest.raises(ValueError, match=r"data\.limit=61: there are 60 images"):
        held_out(np.arange(80) % 10, 20, 61)
    with pytest.raises(ValueError, match="leaves none to train"):
        held_out(np.arange(80) % 10, 80)


def test_a_broken_idx_file_is_named(clothes: Path) -> None:
    raw = clothes / "FashionMNIST" / "raw"
    whole = {path: path.read_bytes() for path in raw.iterdir()}
    images, labels = raw / "train-images-idx3-ubyte", raw / "train-labels-idx1-ubyte.gz"
    wrong = np.full(80, 10, np.uint8)
    for path, content, sentence in (
        (images, whole[images][:-1], "train-images-idx3-ubyte cannot be read as an IDX file"),
        (images, b"", "it is no array of bytes with 3 axes"),
        (images, idx(np.zeros((79, 28, 28), np.uint8)), r"has 79 images, .*labels-idx1-ubyte.gz 80 labels"),
        (labels, whole[labels][:-20], "train-labels-idx1-ubyte.gz cannot be read as an IDX file"),
        (labels, gzip.compress(idx(wrong)), "has labels such as 10, and there are 10 classes"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=sentence):
            FashionMNIST(str(clothes), validate=20)
        path.write_bytes(whole[path])
    assert read_idx(images, 3).shape == (80, 28, 28)


def test_a_missing_set_is_a_sentence_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FashionMNIST, "package", tmp_path / "nothing")
    for word, remedy in {
        "fashion_mnist": r"needs train-images-idx3-ubyte\.gz: apt-get install dataset-fashion-mnist, or put .*/raw",
        "mnist": r"needs train-images-idx3-ubyte\.gz: put .* \(12 MB\) from https.*MNIST/raw",
    }.items():
        with pytest.raises(UsageError, match=remedy):
            fit(configuration(*VIT, f"data={word}", f"data.root={tmp_path}", f"runs={tmp_path}/runs"))
    assert not (tmp_path / "runs").exists()
