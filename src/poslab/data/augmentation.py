"""What training does to a batch of images before a model sees it, in which order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..optional import need
from .augment import erase, random_affine
from .colour import colour_jitter, three_augment
from .mixing import cutmix, mixup, neighbours
from .order import Chance
from .randaugment import BINS, rand_augment

POLICIES = ("none", "randaugment", "three_augment")


@dataclass(frozen=True)
class Augmentation:
    """All of it is off unless it is asked for. What is random depends on (seed, step, place in the step) alone.

    Args:
        flip: half of the images are mirrored.
        policy: none, randaugment (two operations of strength `magnitude`, 0 ... 30), or three_augment.
        jitter: brightness, contrast and saturation times 1 - jitter ... 1 + jitter.
        rotate, translate, scale: see `random_affine`.
        erase: share of the images that lose a box.
        mixup, cutmix: alpha of the Beta distribution that says how much of an image stays; 0 is off. Where both
            are on, each image has one of them, equally often. Every image draws its own share.
        repeats: copies of an image in a step, each augmented on its own (Hoffer et al. 2020); the step takes fewer
            images then, and an epoch has its steps but not all of its images, as in DeiT.

    ValueError where a number is none of those.
    """

    flip: bool = False
    policy: str = "none"
    magnitude: float = 9
    jitter: float = 0.0
    rotate: float = 0.0
    translate: float = 0.0
    scale: float = 0.0
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"data.policy={self.policy} is none of {', '.join(POLICIES)}.")
        if self.policy == "randaugment":
            need("torchvision", "data.policy=randaugment")
        for key, most in {"magnitude": BINS, "jitter": 1, "erase": 1, "mixup": 100, "cutmix": 100}.items():
            if not 0 <= getattr(self, key) <= most:
                raise ValueError(f"data.{key}={getattr(self, key)} lies in 0 ... {most}.")

    def of_files(self, images: Tensor, chance: Chance) -> Tensor:
        """What is done to uint8 images (B, channels, h, w)."""
        if self.policy == "randaugment":
            numbers = chance.uniform("randaugment", 4).unflatten(1, (2, 2))
            images = rand_augment(images, numbers.to(images.device), self.magnitude)
        return images

    def of_pixels(self, x: Tensor, chance: Chance) -> Tensor:
        """What is done to pixels in [0, 1]."""
        if self.policy == "three_augment":
            x = three_augment(x, chance.uniform("three_augment", 2).to(x.device))
        if self.jitter:
            x = colour_jitter(x, chance.uniform("jitter", 3).to(x.device), self.jitter)
        if self.flip:
            mirrored = chance.uniform("flip", 1)[:, 0].to(x.device) < 0.5
            x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
        return x

    def of_inputs(self, x: Tensor, background: Tensor, chance: Chance) -> Tensor:
        """What is done to normalised images; `background` (channels, 1, 1) comes in from outside."""
        if self.rotate or self.translate or self.scale:
            numbers = chance.uniform("augment", 5).to(x.device)
            x = random_affine(x - background, numbers, self.rotate, self.translate, self.scale) + background
        if self.erase:
            x = erase(x, chance.uniform("erase", 5).to(x.device), self.erase)
        return x

    def mix(self, x: Tensor, labels: Tensor, classes: int, chance: Chance) -> tuple[Tensor, Tensor | None]:
        """Images (B, ...) mixed with each other, and their targets (B, classes); None where nothing is mixed."""
        if not (self.mixup or self.cutmix):
            return x, None
        numbers = chance.uniform("mix", 3).to(x.device)
        share = torch.ones(len(x), device=x.device)
        cut = (numbers[:, 0] < 0.5) if self.mixup and self.cutmix else torch.full_like(share, bool(self.cutmix)).bool()
        mixed = x
        if self.mixup:
            share = chance.beta("mixup", self.mixup).to(x.device)
            mixed = mixup(x, share)
        if self.cutmix:
            boxed, left = cutmix(x, chance.beta("cutmix", self.cutmix).to(x.device), numbers[:, 1:])
            mixed, share = torch.where(cut[:, None, None, None], boxed, mixed), torch.where(cut, left, share)
        own, other = F.one_hot(labels, classes), F.one_hot(neighbours(labels), classes)
        return mixed, share[:, None] * own + (1 - share[:, None]) * other
