"""Augmentation: what each does is what its source does, and chance depends on seed, step and place alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms import InterpolationMode, v2

from poslab.data.augment import erase
from poslab.data.augmentation import Augmentation
from poslab.data.colour import blurred, colour_jitter, three_augment
from poslab.data.images import ImageData, ImageSplit
from poslab.data.mixing import cutmix, mixup
from poslab.data.order import Training
from poslab.data.randaugment import operations
from poslab.errors import UsageError
from poslab.tasks.vision import Classification

EACH = {
    "flip": {"flip": True},
    "affine": {"rotate": 20, "translate": 0.1, "scale": 0.1},
    "randaugment": {"policy": "randaugment", "magnitude": 20},
    "three_augment": {"policy": "three_augment"},
    "jitter": {"jitter": 0.4},
    "erase": {"erase": 0.8},
    "mixup": {"mixup": 0.8},
    "cutmix": {"cutmix": 1.0},
}
EACH["all"] = {key: value for options in EACH.values() for key, value in options.items()}
ORDER = Training(samples=16, step=16, micro=16, steps=2, seed=7)


def images(count: int = 16, side: int = 12) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, side, side + 4), generator=torch.manual_seed(1)).to(torch.uint8)


def data(**options: object) -> ImageData:
    split = ImageSplit(images(), torch.arange(16) % 4)
    return ImageData(split, split, split, 4, **options)  # type: ignore[arg-type]


def read(data: ImageData, order: Training, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of a rank's micro-batch, from images in their stored order."""
    _, first = order.place(number)
    batch = data.augmented(data.train[torch.arange(first, first + order.micro)], order.chance(number))
    return batch["images"], batch.get("targets", batch["labels"])


@pytest.mark.parametrize("case", EACH)
def test_chance_depends_on_seed_step_and_place_alone(case: str) -> None:
    some = data(**EACH[case])
    x, targets = read(some, ORDER, 0)
    half = replace(ORDER, micro=4, world=2)  # ranks 0 and 1 take turns
    parts = [read(some, half.on_rank(rank), number) for number in (0, 1) for rank in (0, 1)]
    for whole, together in zip((x, targets), map(torch.cat, zip(*parts)), strict=True):
        assert torch.allclose(whole, together, atol=1e-6)
    plain = some.prepare(some.train.images)
    later, other = read(some, ORDER, 1)[0], read(some, replace(ORDER, seed=8), 0)[0]
    for a, b in ((x, plain), (x, later), (x, other)):
        assert not torch.allclose(a, b, atol=0.01)
    assert torch.equal(read(data(), ORDER, 0)[0], plain)


def chances(count: int, numbers: int) -> torch.Tensor:
    return torch.rand(count, numbers, generator=torch.manual_seed(2))


def test_half_of_the_images_are_mirrored() -> None:
    some = data(flip=True)
    plain = some.prepare(some.train.images)
    kinds = [tuple(torch.equal(x, y) for y in (p, p.flip(2))) for x, p in zip(read(some, ORDER, 0)[0], plain)]
    assert set(kinds) == {(True, False), (False, True)}


def test_colours_change_as_in_torchvision() -> None:
    x, chance = images().float() / 255, chances(16, 3)
    changed = colour_jitter(x, chance, 0.4)
    for image, mine, numbers in zip(x, changed, (0.6 + 0.8 * chance).tolist()):
        theirs = v2.functional.adjust_brightness(image, numbers[0])
        theirs = v2.functional.adjust_contrast(theirs, numbers[1])
        theirs = v2.functional.adjust_saturation(theirs, numbers[2])
        assert torch.allclose(mine, theirs, atol=1e-3)  # torchvision's luma is rounded to three and a half digits


def test_three_augment_is_one_of_three() -> None:
    x, chance = images(side=40).float() / 255, chances(16, 2)
    seen = set()
    for image, mine, (which, sigma) in zip(x, three_augment(x, chance), chance.tolist()):
        kind = int(3 * which)
        seen.add(kind)
        if kind == 2:  # theirs reflects at the edge
            theirs = v2.functional.gaussian_blur(image, [13, 13], [0.1 + 1.9 * sigma] * 2)
            assert torch.allclose(mine[:, 6:-6, 6:-6], theirs[:, 6:-6, 6:-6], atol=1e-5)
        else:
            grey = v2.functional.rgb_to_grayscale(image, 3)
            assert torch.allclose(mine, v2.functional.solarize(image, 0.5) if kind else grey, atol=1e-3)
    assert seen == {0, 1, 2}
    flat = torch.full((2, 1, 5, 5), 0.3)
    assert torch.allclose(blurred(flat, torch.tensor([0.1, 2.0])), flat)


def test_randaugment_has_the_operations_of_torchvision() -> None:
    reference = v2.RandAugment(interpolation=InterpolationMode.BILINEAR)
    x = images(2, side=20)
    for level in (0, 9, 30):
        mine = operations(level, 20, 24)
        assert len(mine) == len(reference._AUGMENTATION_SPACE)
        for operation, (name, (magnitudes, signed)) in zip(mine, reference._AUGMENTATION_SPACE.items()):
            table = magnitudes(31, 20, 24)
            for sign in (-1, 1) if signed else (1,):
                strength = 0.0 if table is None else sign * float(table[level])
                theirs = reference._apply_image_or_video_transform(
                    x, name, strength, InterpolationMode.BILINEAR, {torch.Tensor: None}
                )
                apart = (operation(x, sign).int() - theirs.int()).abs()
                assert apart.max() <= 1, (name, level)  # the same number by another way is rounded otherwise


def test_randaugment_draws_every_operation_for_each_image_by_itself() -> None:
    some = data(policy="randaugment", magnitude=25)
    same = ImageSplit(images(1).expand(16, -1, -1, -1), torch.zeros(16).long())
    steps = [some.augmented(same[torch.arange(16)], ORDER.chance(step))["images"] for step in (0, 1)]
    assert len(torch.cat(steps).flatten(1).unique(dim=0)) > 20  # 32 pairs out of 24 x 24 outcomes


def test_erased_boxes_have_the_size_of_the_paper() -> None:
    x = erase(torch.ones(3000, 2, 40, 40), chances(3000, 5), 0.25)
    gone = (x == 0).float().mean((1, 2, 3))
    assert torch.equal(x[:, 0], x[:, 1]) and 0.22 < (gone > 0).float().mean() < 0.28
    assert 0.01 < gone[gone > 0].min() < 0.03 and 0.30 < gone.max() < 0.35
    rows, columns = ((x[gone > 0, 0] == 0).any(axis).sum(1) for axis in (2, 1))
    assert torch.equal((x[gone > 0, 0] == 0).sum((1, 2)), rows * columns)  # a box
    assert 2.8 < (rows / columns).max() < 4 and 2.8 < (columns / rows).max() < 4


def test_targets_say_how_much_of_each_image_there_is() -> None:
    """Image i is flat with the value i: what is mixed can be read off."""
    x = torch.arange(16.0)[:, None, None, None].expand(16, 1, 20, 24)
    partner = torch.arange(16.0).view(8, 2).flip(1).flatten()
    share = chances(16, 1)[:, 0]
    mixed = mixup(x, share)
    assert torch.allclose(mixed.mean((1, 2, 3)), share * torch.arange(16) + (1 - share) * partner, atol=1e-5)
    cut, left = cutmix(x, share, chances(16, 2))
    own = (cut == x).float().mean((1, 2, 3))
    assert torch.allclose(own, left) and set(cut.unique().tolist()) == {*range(16)}
    assert (left >= share - 0.06).all() and (left - share).min() < 0.02  # a part may lie outside
    how, chance = Augmentation(mixup=0.8, cutmix=1.0), ORDER.chance(0)
    both, targets = how.mix(x, torch.arange(16), 16, chance)
    assert targets is not None and torch.allclose(targets.sum(1), torch.ones(16))
    assert torch.allclose(both.mean((1, 2, 3)), targets @ torch.arange(16.0), atol=1e-4)
    flat = both.flatten(1).std(1) == 0
    assert flat.any() and not flat.all()  # some of each kind
    with pytest.raises(UsageError, match="takes 3 at once: choose an even global_batch_size"):
        mixup(x[:3], share[:3])


def test_the_loss_of_mixed_images_weighs_both_labels() -> None:
    logits = torch.randn(4, 5)
    task = Classification(torch.nn.Identity(), SimpleNamespace(), {}, ORDER, label_smoothing=0.1)
    labels, other, share = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 0, 3, 2]), torch.tensor([0.9, 0.6, 1.0, 0.7])
    targets = share[:, None] * F.one_hot(labels, 5) + (1 - share[:, None]) * F.one_hot(other, 5)
    sums = task.sums({"images": logits, "labels": labels, "targets": targets, "weight": torch.ones(4).bool()})
    for name, smoothing in (("loss", 0.1), ("nll", 0.0)):
        first, second = (
            F.cross_entropy(logits, each, reduction="none", label_smoothing=smoothing) for each in (labels, other)
        )
        assert torch.allclose(sums[name], (share * first + (1 - share) * second).sum())


def test_repeats_are_copies_in_the_same_step() -> None:
    order = Training(samples=50, step=12, micro=12, steps=8, seed=3, repeats=3)
    steps = torch.stack(list(order))
    for step in steps:
        assert torch.equal(step.unique(return_counts=True)[1], torch.full((4,), 3))
        assert (step.view(6, 2)[:, 0] != step.view(6, 2)[:, 1]).all()  # mixup's partner is another image
    assert len(steps[:4].unique()) == 16  # no image in two steps of an epoch
    ranks = [torch.stack(list(replace(order, micro=6, world=2).on_rank(rank))) for rank in (0, 1)]
    assert torch.equal(torch.cat(ranks, dim=1), steps)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"policy": "auto"}, "none of none, randaugment, three_augment"),
        ({"jitter": 2}, "data.jitter=2 lies in 0 ... 1"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        data(**options)
