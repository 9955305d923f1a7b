"""Image sets are read by their real code from small files that are made here; nothing is downloaded."""

from __future__ import annotations

import gzip
import hashlib
import inspect
import io
import pickle
import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from poslab.build import locate
from poslab.data.augmentation import Augmentation
from poslab.data.cifar import CIFAR10, CIFAR100
from poslab.data.folder import ImageFolder, ImageNet100
from poslab.data.hub import HubImages
from poslab.data.idx import MNIST, FashionMNIST, read_idx
from poslab.data.module import Loaders
from poslab.data.order import Training, WithChance
from poslab.data.splits import held_out
from poslab.data.views import TRIES, RandomCrop
from poslab.errors import Interrupted, UsageError
from poslab.evaluators.resolution import Resolution
from poslab.models.vit import ViT
from poslab.positions.none import NoPosition
from poslab.training.fit import fit
from tests.configuration import CONFIGS, VIT, configuration
from tests.test_training import checkpoint, equal, interrupt_at, train


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
    with pytest.raises(ValueError, match="leaves none"):
        held_out(np.arange(80) % 10, 80, None)


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


@pytest.mark.parametrize("word", sorted(path.stem for path in (CONFIGS / "data").glob("*.yaml")))
def test_every_word_composes_and_its_class_takes_its_keys(word: str) -> None:
    node = configuration("model=gpt", f"data={word}")["data"]
    classes = locate(node.pop("_target_")).__mro__  # type: ignore[attr-defined]
    taken = {name for each in classes for name in inspect.signature(each.__init__).parameters}
    taken |= {field.name for field in fields(Augmentation)}
    assert node.keys() <= taken


# --- images in files


def photograph(number: int) -> np.ndarray:
    """(40, 56, 3) or (56, 40, 3) uint8: noise that is this image's own."""
    shape = (40, 56, 3) if number % 2 else (56, 40, 3)
    return np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)


def encoded(number: int) -> bytes:
    content = io.BytesIO()
    Image.fromarray(photograph(number)).save(content, "PNG")
    return content.getvalue()


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """train: 3 classes of 16 images; val: 3 of 4. Image 16 * class + k is the k-th, and 100 + ... in val."""
    for part, each, first in (("train", 16, 0), ("val", 4, 100)):
        for label, name in enumerate(("ant", "bee", "cat")):
            folder = tmp_path / "album" / part / name
            folder.mkdir(parents=True)
            for k in range(each):
                (folder / f"{k:02}.png").write_bytes(encoded(first + each * label + k))
    return tmp_path / "album"


def centre(pixels: np.ndarray, side: int) -> torch.Tensor:
    top, left = ((length - side) // 2 for length in pixels.shape[:2])
    return torch.from_numpy(pixels[top : top + side, left : left + side]).permute(2, 0, 1)


def test_a_folder_is_read_as_it_lies_there(album: Path) -> None:
    data = ImageFolder(str(album), validate=6, size=40)
    assert (len(data.train), len(data.val), len(data.test), data.classes, data.channels) == (42, 6, 12, 3, 3)
    batch = data.val[torch.tensor([0, 3, -1])]
    assert batch["labels"].tolist()[:2] == [0, 1] and batch["weight"].tolist() == [True, True, False]
    # the last two of each class; at the length of the shorter side every pixel is the file's own
    assert torch.equal(batch["images"][0], centre(photograph(14), 40))
    assert torch.equal(batch["images"][1], centre(photograph(31), 40))
    assert torch.equal(data.test[torch.tensor([11])]["images"][0], centre(photograph(111), 40))
    assert torch.equal(data.train[torch.arange(42)]["labels"].bincount(), torch.tensor([14, 14, 14]))


def test_another_size_is_read_from_the_files(album: Path) -> None:
    """Also by a model that was trained at a smaller one; and the crop is in the protocol."""
    data = ImageFolder(str(album), size=8)
    assert data.test[torch.arange(2)]["images"].shape == (2, 3, 8, 8)
    assert torch.equal(data.test.at((40, 40))[torch.arange(1)]["images"][0], centre(photograph(100), 40))
    assert data.test.at((16, 40))[torch.arange(2)]["images"].shape == (2, 3, 16, 40)
    half = ImageFolder(str(album), size=20, crop=0.5)
    assert torch.equal(half.test[torch.arange(1)]["images"][0], centre(photograph(100), 20))
    assert "size / 1, centre crop (bicubic" in Resolution().protocol(data)
    assert "size / 0.5, centre crop" in Resolution().protocol(half)
    soft = ImageFolder(str(album), size=8, interpolation="bilinear")
    assert not torch.equal(data.test[torch.arange(1)]["images"], soft.test[torch.arange(1)]["images"])
    model = ViT(pos=NoPosition, image_size=(8, 8), channels=3, classes=3, patch_size=4, dim=8, heads=1, depth=1)
    for size in ((8, 8), (40, 40)):
        values = Resolution(batch_size=5).measure(model, data, size).totals["loss"]
        images = data.prepare(data.test.at(size)[torch.arange(12)]["images"])
        assert data.prepare(images, size).shape == (12, 3, *size) and len(values) == 12


def test_random_crops_are_parts_of_the_image() -> None:
    crop = RandomCrop((6, 6), (0.2, 0.5))
    chances = torch.rand(2000, 2 * TRIES + 2, generator=torch.Generator().manual_seed(0))
    boxes = np.array([crop.box(40, 60, chance.tolist()) for chance in chances])
    top, left, height, width = boxes.T
    assert (boxes >= 0).all() and (top + height).max() == 40 and (left + width).max() == 60 and min(top) == 0
    assert (top + height)[height < 30].max() == 40 and (left + width)[width < 40].max() == 60  # both ends are reached
    rows = torch.arange(40, dtype=torch.uint8)[None, :, None].expand(3, 40, 60)
    means = np.array([float(crop(rows, chance).float().mean()) for chance in chances[:50]])
    assert np.abs(means - (top + (height - 1) / 2)[:50]).max() < 1  # of the rows in the box
    share, aspect = height * width / 2400, width / height
    assert 0.19 < share.min() < 0.21 and 0.48 < share.max() < 0.52  # both sides are whole pixels
    assert 0.72 < aspect.min() < 0.78 and 1.29 < aspect.max() < 1.37
    whole = RandomCrop((6, 6), (1.0, 1.0)).box(10, 100, chances[0].tolist())
    assert whole == (0, 43, 10, 13)  # no try fits: the middle, at most 4/3 wide


def test_training_crops_depend_on_seed_and_step_alone(album: Path) -> None:
    data = ImageFolder(str(album), validate=6, size=8, area=[0.3, 0.6])
    split = data.train
    order = Training(samples=42, step=8, micro=8, steps=10, seed=5)

    def read(order: Training) -> list[torch.Tensor]:
        return [split[asked]["images"] for asked in WithChance(order, split.chances)]

    whole = read(order)
    half = replace(order, micro=2, world=2)
    ranks = [torch.stack(read(half.on_rank(rank))).unflatten(0, (10, 2)) for rank in (0, 1)]
    together = torch.stack(ranks, dim=2).flatten(1, 3)  # step, micro-batch, rank, image
    assert torch.equal(together, torch.stack(whole))
    assert all(torch.equal(a, b) for a, b in zip(read(replace(order, start=3)), whole[3:], strict=True))
    assert not torch.equal(whole[0], read(replace(order, seed=6))[0])
    loader = Loaders(data, order, batch=4).train_dataloader()
    assert torch.equal(next(iter(loader))["images"], whole[0])
    unmoved = split[torch.arange(42)]["images"]
    assert not (whole[0][:, None] == unmoved[None]).flatten(2).all(2).any()


def test_what_is_wrong_with_a_folder_is_said(album: Path) -> None:
    bad = album / "val" / "ant" / "00.png"
    data = ImageFolder(str(album), size=8)
    before = data.fingerprint()
    bad.write_bytes(encoded(7))
    assert data.fingerprint() != before == before
    for content, reason in ((b"", "it is no image"), (encoded(7)[:400], "truncated"), (b"GIF89a", "it is no image")):
        bad.write_bytes(content)
        with pytest.raises(UsageError, match=rf"val/ant/00\.png cannot be decoded \(.*{reason}"):
            data.test[torch.tensor([0])]
    (album / "val" / "dog").mkdir()
    for sentence in ("finds no images in .*val .*Images lie in", "val have not the same classes, one lacks dog"):
        with pytest.raises((FileNotFoundError, ValueError), match=sentence):
            ImageFolder(str(album), size=8)
        (album / "val" / "dog" / "1.png").write_bytes(encoded(1))
    shutil.rmtree(album / "val" / "dog")
    for name in ("imagefolder", "imagenet", "imagenet100"):
        size = "138 GB" if name != "imagefolder" else "CLASS/NAME.jpg"
        with pytest.raises(UsageError, match=f"data={name} finds no images in .*nowhere/train .*{size}"):
            fit(configuration(*VIT, f"data={name}", "data.root=nowhere", "data.size=8"))
    with pytest.raises(ValueError, match=r"such as \[0.08,1\]"):
        ImageFolder(str(album), area=[0.5, 0.2])
    with pytest.raises(ValueError, match=r"data\.crop=1.5"):
        ImageFolder(str(album), crop=1.5)


def test_imagenet100_takes_its_classes_out_of_imagenet(tmp_path: Path) -> None:
    names = sorted(ImageNet100.chosen)
    assert len(names) == 100 and "n01440764" not in names  # the tench is the first of the thousand
    for part in ("train", "val"):
        for number, name in enumerate([*names, "n01440764"]):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            (folder / "1.JPEG").write_bytes(encoded(number))
    data = ImageNet100(str(tmp_path), size=40, validate=1)
    assert data.classes == 100 and len(data.test) == 100
    assert torch.equal(data.test[torch.tensor([99])]["images"][0], centre(photograph(99), 40))
    (tmp_path / "val" / names[5] / "1.JPEG").unlink()
    with pytest.raises(FileNotFoundError, match=names[5]):
        ImageNet100(str(tmp_path))


def test_parquet_through_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    import pyarrow
    from pyarrow import parquet

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    features = datasets.Features(
        {"img": datasets.Image(), "fine": datasets.ClassLabel(num_classes=3), "coarse": datasets.Value("int64")}
    )
    (empty := tmp_path / "empty").mkdir()
    (tmp_path / "set").mkdir()
    for split, numbers in (("train", range(20)), ("test", range(100, 104))):
        rows = {"img": [{"bytes": encoded(n), "path": None} for n in numbers]}
        rows |= {"fine": [n % 3 for n in numbers], "coarse": [n % 2 - (split == "test") for n in numbers]}
        table = pyarrow.table(rows, schema=features.arrow_schema)
        parquet.write_table(table, tmp_path / "set" / f"{split}-00000-of-00001.parquet")
    where = {"name": str(tmp_path / "set"), "image": "img", "size": 40}
    data = HubImages(**where, label="fine", validate=2)
    assert (len(data.train), len(data.val), len(data.test), data.classes) == (18, 2, 4, 3)
    batch = data.test[torch.arange(4)]
    assert batch["labels"].tolist() == [1, 2, 0, 1]
    assert torch.equal(batch["images"][3], centre(photograph(103), 40))
    assert data.fingerprint() == HubImages(**where, label="fine").fingerprint()
    for options, sentence in (
        ({"label": "fin"}, "no column fin: choose data.label from img, fine, coarse"),
        ({"label": "img"}, "column img are no integers"),
        ({"label": "coarse"}, "test split has labels such as -1, and there are 2 classes"),
        ({"label": "fine", "test": "validation"}, "cannot load split validation of"),
        ({"label": "fine", "name": str(empty)}, "is there parquet, or text, of that split in that folder"),
    ):
        with pytest.raises(ValueError, match=sentence):
            HubImages(**(where | options))


def test_the_hub_out_of_reach_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=r"cannot load split train of nobody/nothing .* data.name=FOLDER here"):
        fit(configuration(*VIT, "data=hub", "data.name=nobody/nothing", "data.size=8"))


def cifar10(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """torchvision's files with 30 images to train and 30 to test; returns the folder with the batches."""
    from torchvision import datasets

    base = folder / datasets.CIFAR10.base_folder
    base.mkdir()
    parts: dict[str, list[list[str]]] = {"train_list": [], "test_list": []}
    for name, part, first in (("data_batch_1", "train_list", 0), ("test_batch", "test_list", 100)):
        pixels = np.zeros((30, 3072), np.uint8)
        pixels[:, 1024] = first + np.arange(30)  # the first pixel's green
        content = pickle.dumps({"data": pixels, "labels": [n % 10 for n in range(30)]})
        (base / name).write_bytes(content)
        parts[part].append([name, hashlib.md5(content).hexdigest()])
    content = pickle.dumps({"label_names": list("abcdefghij")})
    (base / "batches.meta").write_bytes(content)
    meta = datasets.CIFAR10.meta | {"md5": hashlib.md5(content).hexdigest()}
    for name, value in (parts | {"meta": meta}).items():
        monkeypatch.setattr(datasets.CIFAR10, name, value)
    return base


def test_cifar_is_read_by_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = cifar10(tmp_path, monkeypatch)
    data = CIFAR10(str(tmp_path), validate=10)
    assert data.train.images.shape == (20, 3, 32, 32) and data.train.images[:, 1, 0, 0].tolist() == [*range(20)]
    assert data.val.labels.tolist() == [*range(10)] and data.test.images[:, 1, 0, 0].tolist() == [*range(100, 130)]
    (base / "data_batch_1").write_bytes(b"half of it")
    with pytest.raises(FileNotFoundError, match=r"data=cifar10 finds no cifar-10-python.*170 MB.*download=True"):
        CIFAR10(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"data=cifar100 finds no cifar-100-python.*169 MB"):
        CIFAR100(str(tmp_path))


def test_a_run_on_files_goes_on_where_it_stopped(album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*VIT, "data=imagefolder", f"data.root={album}", "data.size=8", "global_batch_size=8", "workers=1"]
    words += ["data.policy=three_augment", "data.mixup=0.8", "data.cutmix=1", "data.erase=0.25", "data.repeats=2"]
    whole = train(tmp_path / "whole", *words)
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=7)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", *words)
    (stopped,) = (tmp_path / "stopped" / "runs").iterdir()
    fit(configuration(f"resume={stopped}"))
    a, b = (checkpoint(directory)["state_dict"] for directory in (whole, stopped))
    assert equal(a, b)
