"""Whole models on a GPU: is the fast path right, how much of the chip do they use, can the input keep up?"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from poslab.data.images import ImageData, ImageSplit
from poslab.data.module import Loaders
from poslab.data.order import Training
from poslab.data.text import ByteText
from poslab.evaluators.timing import forward_flops
from poslab.training.utilisation import TRAINING

from .encodings import BASE, kind_of
from .models import Images, Shape, Text, batch, build, words
from .pairs import ratio
from .step import Step, allow_many_models

if TYPE_CHECKING:
    from .gpu import Setup

COMPILED = ("none", "learned", "rope", "alibi", "t5", "shaw", "rope2d")  # each kind; the other words in eager mode
WORSE = 4.0  # times the error of `none` in the same precision that an encoding may have
LEAST = {"rotary": 0.97, "additive": 0.97, "learned bias": 0.80, "constant bias": 0.80}  # of the throughput of `none`
UTILISATION = {"text": 0.50, "image": 0.45}
GIB = 1 << 30
WARM_UP = 3


def correctness(setup: Setup) -> Iterator[dict[str, Any]]:
    """Logits under bfloat16 autocast against float64: all words in eager mode, then one of a kind compiled.

    The error of `none` is the measure.
    """
    for compiled in (False, True) if setup.compiled else (False,):
        for shape in (setup.each_gpt, setup.each_vit):
            errors: dict[str, float] = {}
            for word in sorted(words(shape), key=lambda word: word != BASE):
                if not compiled or word in COMPILED:
                    model = noisy(build(shape, word)).to(setup.device).eval()
                    errors[word] = half_error(model, batch(shape, setup.device)[0][:2], compiled)
                    yield {
                        "model": shape.name, "word": word, "compiled": compiled, "error": errors[word],
                        "none": errors[BASE], "met": errors[word] <= WORSE * errors[BASE],
                    }  # fmt: skip


@torch.no_grad()
def half_error(model: nn.Module, inputs: Tensor, compiled: bool) -> float:
    """The largest difference of the logits from those in float64, over the largest logit."""
    precise = copy.deepcopy(model).double()
    expected = precise(inputs.double() if inputs.is_floating_point() else inputs)
    if compiled:
        allow_many_models()
        model.compile()
    with torch.autocast(inputs.device.type, torch.bfloat16):
        found = model(inputs).double()
    return float((found - expected).abs().max() / expected.abs().max())


@torch.no_grad()
def noisy(model: nn.Module) -> nn.Module:
    """Every parameter away from its start: a head of zeros would make all logits equal."""
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return model


def utilisation(setup: Setup) -> Iterator[dict[str, Any]]:
    """Operations of the matrix products, three forward passes a step, over what the chip could do in that time."""
    for shape, word in ((setup.gpt, "learned"), (setup.vit, "learned")):
        model = build(shape, word).to(setup.device)
        inputs, targets = batch(shape, setup.device)
        flops = TRAINING * shape.batch * forward_flops(model, inputs[:1])
        step = Step(model, (inputs, targets), setup.compiled, half=True)
        seconds = float(np.median([step() for _ in range(WARM_UP + setup.repeats)][WARM_UP:]))
        step.check()
        setup.appetite[shape.kind] = shape.batch / seconds
        share = None if setup.peak is None else flops / seconds / setup.peak
        goal = UTILISATION[shape.kind]
        yield {
            "model": shape.name, "word": word, "batch": shape.batch, "step_ms": 1000 * seconds,
            **rate(shape, seconds), "tflops": flops / seconds / 1e12, "mfu": share, "goal": goal,
            "met": None if share is None else share >= goal, "step_GiB": step.peak_bytes() / GIB,
        }  # fmt: skip


def encodings(setup: Setup) -> Iterator[dict[str, Any]]:
    """The throughput of every word over that of `none`, and its memory: one of a kind compiled, then all in eager."""
    for compiled in (True, False) if setup.compiled else (False,):
        for shape in (setup.each_gpt, setup.each_vit):
            data = batch(shape, setup.device)
            plain = Step(build(shape, BASE), data, compiled, half=True)
            for word, encoding in words(shape).items():
                if not compiled or word in COMPILED:
                    step = Step(build(shape, word), data, compiled, half=True)
                    found = ratio(word, BASE, step, plain, setup.repeats, warm_up=WARM_UP)
                    step.check()
                    kind = kind_of(encoding)
                    goal = LEAST.get(kind) if compiled else None
                    assert found.ours is not None
                    yield {
                        "model": shape.name, "word": word, "kind": kind, "compiled": compiled,
                        "throughput": 1 / found.median, "bounds": [1 / found.high, 1 / found.low], "goal": goal,
                        "met": None if goal is None else 1 / found.high >= goal, **rate(shape, found.ours),
                        "step_GiB": step.peak_bytes() / GIB,
                    }  # fmt: skip


def feeding(setup: Setup) -> Iterator[dict[str, Any]]:
    """Samples a second that the input makes, on the device and augmented, over what the models took."""
    for shape in (setup.gpt, setup.vit):
        order = Training(4 * shape.batch, shape.batch, shape.batch, 4, seed=0)
        data = text(shape) if isinstance(shape, Text) else images(shape)
        for _ in range(2):  # the first time warms up
            began = time.perf_counter()
            for number, made in enumerate(Loaders(data, order, shape.batch).train_dataloader()):
                on_device = {name: value.to(setup.device) for name, value in made.items()}
                if isinstance(shape, Images):
                    data.augmented(on_device, order.chance(number))
            if setup.device == "cuda":
                torch.cuda.synchronize()
            samples = len(order) * shape.batch / (time.perf_counter() - began)
        appetite = setup.appetite.get(shape.kind)
        yield {
            "model": shape.name, "samples_per_second": samples, "appetite": appetite,
            "met": None if appetite is None else samples >= appetite,
        }  # fmt: skip


def images(shape: Images) -> ImageData:
    """Four batches of noise, half of which is mirrored."""
    sizes = (4 * shape.batch, shape.channels, *shape.size)
    split = ImageSplit(torch.randint(256, sizes, dtype=torch.uint8), torch.randint(shape.classes, sizes[:1]))
    return ImageData(split, split, split, shape.classes, flip=True)


def text(shape: Text) -> ByteText:
    """Four batches of bytes."""
    document = bytes(4 * shape.batch * shape.context + 1)
    return ByteText({name: [document] for name in ("train", "val", "test")}, shape.context)


def rate(shape: Shape, seconds: float) -> dict[str, float]:
    """Tokens or images a second."""
    if shape.kind == "text":
        return {"tokens_per_second": shape.batch * shape.tokens / seconds}
    return {"images_per_second": shape.batch / seconds}
