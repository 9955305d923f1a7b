"""How time and memory of every encoding grow with the number of tokens, as exponents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from poslab.evaluators.base import Evaluation

from .memory import peak_bytes
from .models import SMALL_GPT, SMALL_VIT, Images, Shape, Text, batch, build, words
from .pairs import Comparison, counted, exponent, median_bounds
from .report import Options, main
from .step import Step

TEXT = Text(dim=128, heads=4, depth=2, context=256, batch=1)
IMAGES = Images(side=16, patch=4, batch=1, dim=128, heads=4, depth=2)
FACTORS = (1, 2, 4, 8)  # of the tokens of training
BEYOND = 16  # times as many tokens as in training, in evaluation
LINEAR = 1.1  # the exponent of what is called linear: a little is made anew for every size


def rows(options: Options) -> Iterator[Comparison]:
    factors = FACTORS[:3] if options.small else FACTORS
    for base in (SMALL_GPT, SMALL_VIT) if options.small else (TEXT, IMAGES):
        for word, encoding in words(base).items():
            case = f"{base.kind}, `{word}`"
            if options.wants(case):
                yield from trained(case, base, word, factors, options)
                if encoding.unbounded:
                    yield read(case, base, word, BEYOND)


def trained(case: str, base: Shape, word: str, factors: tuple[int, ...], options: Options) -> Iterator[Comparison]:
    """The exponents of a step of models that train on more and more tokens."""
    shapes = [longer(base, factor) for factor in factors]
    sizes = np.array([shape.tokens for shape in shapes])
    steps = [Step(build(shape, word), batch(shape), options.compile) for shape in shapes]
    for step in steps:
        step()
    # all sizes by turns: what disturbs the machine disturbs all of them
    seconds = np.array([[step() for step in steps] for _ in range(options.pairs)])
    exponents = np.array([exponent(sizes, turn) for turn in seconds])
    yield Comparison(f"{case}, time", "tokens^p", *median_bounds(exponents), options.pairs, unit="p")
    memory = np.array([step.peak_bytes() for step in steps])
    yield counted(f"{case}, memory", "tokens^p", exponent(sizes, memory), unit="p")


def read(case: str, base: Shape, word: str, factor: int) -> Comparison:
    """The exponent of the memory of a forward pass, from half of `factor` times the tokens of training to all."""
    model = build(base, word)
    shapes = [longer(base, factor // 2), longer(base, factor)]
    with Evaluation(model):
        memory = [peak_bytes(partial(model, batch(shape)[0])) for shape in shapes]
    value = exponent(np.array([shape.tokens for shape in shapes]), np.array(memory))
    return counted(f"{case}, memory at {factor} times the trained tokens", "tokens^p", value, LINEAR, "p")


def longer(shape: Shape, factor: int) -> Shape:
    """The same with about `factor` times the tokens."""
    if isinstance(shape, Text):
        return replace(shape, context=factor * shape.context)
    return replace(shape, side=round(factor**0.5 * shape.side))


if __name__ == "__main__":
    main("growth", rows)
