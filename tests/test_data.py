"""Splits are disjoint, orders are functions of (seed, epoch), windows score the same tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from poslab.data.augment import random_affine
from poslab.data.digits import Digits
from poslab.data.images import ImageData, ImageSplit
from poslab.data.mnist5k import MNIST5k
from poslab.data.order import EvalOrder, Training
from poslab.data.splits import split_of, stratified
from poslab.data.stdlib import Stdlib
from poslab.data.text import IGNORE, ByteText


def test_mnist5k_is_whole_and_stratified() -> None:
    data = MNIST5k()
    for split, each in ((data.train, 380), (data.val, 20), (data.test, 100)):
        assert torch.equal(split.labels.bincount(), torch.full((10,), each))
    together = torch.cat([split.images.flatten(1) for split in (data.train, data.val, data.test)])
    assert together.shape == (5000, 784) and together.unique(dim=0).shape == (5000, 784)  # none is in two splits
    assert data.fingerprint() == MNIST5k().fingerprint() == "2ae92cfbb31c71bd"
    assert abs(float(data.prepare(data.train.images).mean())) < 1e-4


def test_stratified_refuses_more_than_there_is() -> None:
    labels = np.repeat(np.arange(3), 4)
    parts = stratified(labels, (3, 6, 3))
    assert sorted(np.concatenate(parts)) == list(range(12))
    assert all(np.array_equal(np.bincount(labels[part]), [len(part) // 3] * 3) for part in parts)
    with pytest.raises(ValueError, match="need 13 samples"):
        stratified(labels, (13,))


def test_evaluation_leaves_pixels_alone_at_their_own_size() -> None:
    data = Digits()
    pixels = data.test.images[:4].float() / 255
    assert torch.equal(data.prepare(data.test.images[:4]), (pixels - data.mean) / data.std)
    assert data.prepare(data.test.images[:4], (12, 20)).shape == (4, 1, 12, 20)


def test_padding_weighs_nothing() -> None:
    batch = Digits().test[torch.tensor([5, -1])]
    assert batch["weight"].tolist() == [True, False]


def draw(x: torch.Tensor, **how: float) -> torch.Tensor:
    how = {"rotate": 20, "translate": 0.1, "scale": 0.1} | how
    return random_affine(x, torch.rand(len(x), 5, generator=torch.Generator().manual_seed(3)), **how)


def test_affine_moves_as_it_says() -> None:
    rows = torch.arange(41.0)
    blob = torch.exp(-((rows - 20) ** 2) / 8)
    x = (blob[:, None] * blob).expand(400, 1, 41, 41)
    moved = draw(x, rotate=0, translate=0.1, scale=0)
    centre = (moved.sum(3) * rows).sum((1, 2)) / moved.sum((1, 2, 3)) - 20
    # a tenth of 41 pixels at most; a cubic kernel misplaces what it interpolates by up to a twentieth of a pixel
    assert 4.0 < centre.abs().max() < 4.1 + 0.05
    wide = draw(x, rotate=0, translate=0, scale=0.1).sum((1, 2, 3)) / x.sum((1, 2, 3))
    assert 1.15 < wide.max() < 1.1**2 + 0.02 and 0.9**2 - 0.02 < wide.min() < 0.87  # both sides by a tenth at most
    assert torch.allclose(draw(x, rotate=0, translate=0, scale=0), x, atol=1e-5)


def test_every_sample_once_an_epoch_and_another_order_in_the_next() -> None:
    order = Training(samples=24, step=8, micro=4, steps=6, seed=0)
    seen = torch.cat(list(order)).reshape(2, 24)
    assert all(torch.equal(epoch.sort().values, torch.arange(24)) for epoch in seen)
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], torch.cat(list(Training(24, 8, 4, 3, seed=1))))


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("micro", [2, 4])
def test_a_step_takes_the_same_samples_on_any_number_of_devices(world: int, micro: int) -> None:
    single = torch.cat(list(Training(50, 16, 16, 7, seed=5))).reshape(7, 16)
    ranks = [Training(50, 16, micro, 7, seed=5, rank=rank, world=world) for rank in range(world)]
    steps = torch.stack([torch.cat(list(rank)).reshape(7, -1) for rank in ranks])
    for step in range(7):
        assert torch.equal(steps[:, step].flatten().sort().values, single[step].sort().values)


def test_training_goes_on_after_any_step_on_any_number_of_devices() -> None:
    whole = list(Training(50, 16, 4, 7, seed=5))
    for start in range(8):
        resumed = Training(50, 16, 4, 7, seed=5, start=start)
        assert len(resumed) == len(whole)
        assert all(torch.equal(a, b) for a, b in zip(resumed, whole[start * 4 :], strict=True))


def test_evaluation_counts_every_sample_once() -> None:
    ranks = [list(EvalOrder(samples=10, batch=2, rank=rank, world=3)) for rank in range(3)]
    assert len({len(rank) for rank in ranks}) == 1  # equally many batches: no rank waits for another
    index = torch.cat([batch for rank in ranks for batch in rank])
    assert sorted(index[index >= 0].tolist()) == list(range(10))


def test_stdlib_has_no_file_in_two_splits() -> None:
    data = Stdlib(context=64)
    assert [split_of(name) for name in (b"__future__.py", b"functools.py", b"fileinput.py")] == ["train", "val", "test"]
    documents = {name: {document.tobytes() for document in split} for name, split in data.documents.items()}
    assert all(documents.values())
    shared = (documents["train"] & documents["test"]) | (documents["train"] & documents["val"])
    assert all(len(text) < 200 for text in shared)  # two files may say the same few words
    assert data.decode(data.encode("naïve")) == "naïve"


def byte_text(*lengths: int, context: int = 8) -> ByteText:
    text = [bytes((7 * i + j) % 251 + 1 for j in range(n)) for i, n in enumerate(lengths)]
    return ByteText({"train": text, "val": text, "test": text}, context)


def test_blocks_are_consecutive_and_targets_follow_inputs() -> None:
    batch = byte_text(100).train[torch.tensor([0, 1, -1])]
    assert torch.equal(batch["inputs"][:2, 1:], batch["targets"][:2, :-1])
    assert batch["targets"][0, -1] == batch["inputs"][1, 0]
    assert (batch["targets"][2] == IGNORE).all()


def test_windows_score_the_same_bytes_at_every_length() -> None:
    data = byte_text(90, 33, 70)
    scored = []
    for context in (8, 16, 32):
        windows = data.windows(context, history=32, targets=4, count=12)
        assert windows.inputs.shape[1] == context and (windows.targets[:, :-4] == IGNORE).all()
        scored.append(windows.targets[:, -4:])
        assert torch.equal(windows.inputs[:, -3:], windows.targets[:, -4:-1])
    assert torch.equal(scored[0], scored[1]) and torch.equal(scored[0], scored[2])
    with pytest.raises(ValueError, match="history=100"):
        data.windows(8, 100, 4, 10)


def test_too_little_text_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="holds 4 bytes"):
        byte_text(3)


def test_image_size_may_be_one_number_or_two() -> None:
    split = ImageSplit(torch.zeros(4, 1, 6, 8, dtype=torch.uint8), torch.arange(4))
    assert ImageData(split, split, split, 4).size == (6, 8)
    assert ImageData(split, split, split, 4, size=12).size == (12, 12)
    assert ImageData(split, split, split, 4, size=(12, 20)).size == (12, 20)
