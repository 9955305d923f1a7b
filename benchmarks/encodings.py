"""The training step with every encoding over the same step without one, and the memory of learned biases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from unittest.mock import patch

from torch import Tensor

from poslab.positions import Frame, PositionEncoding

from .models import SMALL_GPT, SMALL_VIT, VITS, Shape, Text, batch, build, words
from .pairs import Comparison, counted, ratio
from .report import Options, main
from .step import Step

SHAPES = (
    *VITS,
    Text(dim=128, heads=4, depth=4, context=64, batch=16),
    Text(dim=128, heads=4, depth=4, context=256, batch=4),
    Text(dim=128, heads=4, depth=4, context=512, batch=2),
    Text(dim=128, heads=4, depth=4, context=2048, batch=1),
)
BASE = "none"
MEMORY_GOAL = 1 / 3  # of what the plain math path takes more than no encoding


def rows(options: Options) -> Iterator[Comparison]:
    for shape in (SMALL_VIT, SMALL_GPT) if options.small else SHAPES:
        data = batch(shape)
        for word, encoding in words(shape).items():
            case = f"{shape.name}, `{word}`"
            kind = kind_of(encoding)
            if options.wants(case, kind):
                ours, plain = (Step(build(shape, name), data, options.compile) for name in (word, BASE))
                against = f"`{BASE}` ({kind})" if word != BASE else "itself: what noise alone does"
                found = ratio(case, against, ours, plain, options.pairs, goal(kind, shape.tokens))
                ours.check()
                plain.check()
                yield found
                if kind == "learned bias":
                    yield counted(f"{case}, extra memory", "math path", extra_memory(shape, word), MEMORY_GOAL)


def kind_of(encoding: PositionEncoding) -> str:
    """What it does that costs most."""
    if encoding.overrides("content_bias"):
        return "content bias"
    if encoding.overrides("bias"):
        return "learned bias" if any(True for _ in encoding.parameters()) else "constant bias"
    if encoding.overrides("rotate"):
        return "rotary"
    return "additive" if encoding.overrides("embed") else "nothing"


def goal(kind: str, tokens: int) -> float | None:
    """The most that a step may take, in steps without an encoding; None where nothing is promised."""
    if kind == "rotary":
        return 1.05 if tokens >= 256 else 1.10
    if kind == "learned bias":
        return 1.5 if tokens <= 512 else 1.9
    if kind == "content bias":
        return 2.2 if tokens <= 512 else None
    return {"additive": 1.02, "constant bias": 1.10}.get(kind)


def extra_memory(shape: Shape, word: str) -> float:
    """Peak memory of a step above that of `none`, over the same with attention written out plainly."""
    base = step_bytes(shape, BASE)
    return (step_bytes(shape, word) - base) / (step_bytes(shape, word, plainly=True) - base)


def step_bytes(shape: Shape, word: str, plainly: bool = False) -> int:
    """Peak bytes of the second training step, when the optimiser has its state."""
    step = Step(build(shape, word), batch(shape))
    with patch.object(Frame, "attend", plain_attention) if plainly else nullcontext():
        step()
        return step.peak_bytes()


def plain_attention(frame: Frame, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(scale * q.k + bias) v, each step a tensor of its own."""
    return frame.weights(q, k, 0, q.shape[-2]) @ v


if __name__ == "__main__":
    main("encodings", rows)
