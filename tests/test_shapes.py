"""Drawn pictures: the label is what can be measured in them, at every size."""

from __future__ import annotations

import math

import pytest
import torch

from poslab.data.shapes import Scenes, Shapes
from poslab.evaluators.resolution import Resolution
from poslab.models.vit import ViT
from poslab.positions.none import NoPosition


def shapes(picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The pixels (N, 2) of the disc and of the square: this one fills its box, a disc only pi / 4 of its own."""
    left = set(map(tuple, (picture > 0).nonzero().tolist()))
    found = []
    while left:  # flood fill: one shape after the other
        shape, edge = set(), {left.pop()}
        while edge:
            shape |= edge
            edge = {(r + dr, c + dc) for r, c in edge for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0))} & left
            left -= edge
        place = torch.tensor(sorted(shape))
        light = picture[place[:, 0], place[:, 1]]
        found.append(place[light > light.max() / 2].double())  # an edge is one pixel wide
    disc, square = sorted(found, key=lambda place: len(place) / (place.amax(0) - place.amin(0) + 1).prod())
    return disc, square


@pytest.mark.parametrize("size", [(96, 96), (96, 160)])
def test_the_disc_lies_in_the_direction_of_the_label(size: tuple[int, int]) -> None:
    for directions in (4, 8):
        batch = Shapes(directions=directions).test.at(size)[torch.arange(40)]
        for picture, label in zip(batch["images"][:, 0], batch["labels"].tolist(), strict=True):
            disc, square = shapes(picture)
            down, right = ((disc.mean(0) - square.mean(0)) / torch.tensor(size)).tolist()
            angle = math.atan2(down, right)
            turn = (angle / (2 * math.pi) * directions - label + directions / 2) % directions - directions / 2
            assert abs(turn) < 0.25  # a sixth of a sector, and the rounding of pixels
            assert 0.85 < len(disc) / len(square) < 1.15  # the same area: none is cut off
            apart = (disc[:, None] - square[None]).abs() * 32 / torch.tensor(size)
            assert apart.amax(2).min() > 4  # pixels of 32: no patch holds a part of both


def test_pictures_are_functions_of_their_number_and_the_size() -> None:
    data = Shapes()
    whole = data.train[torch.arange(20)]
    assert torch.equal(data.train[torch.tensor([7, -1])]["images"][0], whole["images"][7])
    assert data.train[torch.tensor([7, -1])]["weight"].tolist() == [True, False]
    assert torch.equal(data.train.at((64, 64)).at((32, 32))[torch.arange(20)]["images"], whole["images"])
    assert not torch.equal(data.test[torch.arange(20)]["images"], whole["images"])
    assert data.fingerprint() == Shapes(size=64).fingerprint() != Shapes(directions=4).fingerprint()
    small, large = (Scenes(20, 0, (side, side), 8)[torch.arange(20)]["images"].double() for side in (32, 128))
    averaged = torch.nn.functional.avg_pool2d(large, 4)
    assert (averaged - small).abs().mean() < 0.5 < (averaged - small.roll(1, 0)).abs().mean()  # of 255: the same scene


def test_classes_are_equally_frequent_and_alike_but_for_the_arrangement() -> None:
    data = Shapes(samples=8000)
    batch = data.train[torch.arange(8000)]
    labels = batch["labels"]
    assert (labels.bincount(minlength=8) / 8000 - 1 / 8).abs().max() < 0.015
    light = batch["images"].double().mean((1, 2, 3))
    by_class = torch.stack([light[labels == label].mean() for label in range(8)])
    assert (by_class / light.mean() - 1).abs().max() < 0.06  # 3 standard errors of a class


def test_a_model_reads_every_size_as_it_is_drawn() -> None:
    data = Shapes(samples=10)
    model = ViT(pos=NoPosition, image_size=(32, 32), channels=1, classes=8, patch_size=4, dim=8, heads=1, depth=1)
    assert "drawn at each size" in Resolution().protocol(data)
    seen = []
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    Resolution(batch_size=1000).measure(model, data, (48, 64))
    assert torch.equal(seen[0], data.prepare(data.test.at((48, 64))[torch.arange(len(seen[0]))]["images"], (48, 64)))
    with pytest.raises(ValueError, match=r"data\.directions=1"):
        Shapes(directions=1)
