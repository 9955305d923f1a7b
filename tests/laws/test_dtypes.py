"""Shapes and dtypes: positions are computed in float32 or better, and cast last."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from poslab.positions import Frame, PositionEncoding, Positions, Spec

from . import build
from .build import DIM, HEADS, Setting

BF16 = 2.0**-8  # half a step of bfloat16, relative


def far(encoding: PositionEncoding, setting: Setting) -> Positions:
    """Many positions where the encoding has them: half precision fails first at large ones."""
    if not encoding.unbounded:
        return setting.positions()
    return Positions.line(1200) if len(setting.extent) == 1 else Positions.grid(20, 40)


def through_bfloat16(encoding: PositionEncoding) -> PositionEncoding:
    """The same encoding in float32 with parameters that bfloat16 can hold."""
    return copy.deepcopy(encoding).bfloat16().float()


def near(half: Tensor, exact: Tensor) -> None:
    """Equal to the rounding of one bfloat16 number of the size of `exact`; the same cells are -inf."""
    half, exact = half.float(), exact.float()
    gap = torch.where(half == exact, 0, half - exact).abs()
    assert (gap <= BF16 * exact.abs() + 1e-6).all(), f"off by {gap.max():.3g}"


@pytest.mark.parametrize("word, setting", build.cases())
@pytest.mark.parametrize("prefix", [0, 1])
def test_shapes(word: str, setting: Setting, prefix: int) -> None:
    if prefix and setting.causal:
        pytest.skip("text: causal=True has no prefix")
    encoding, pos = build.encoding(word, setting), setting.positions()
    tokens = len(pos)
    q, k, v = build.heads_of(setting, prefix=prefix)
    frame = Frame(encoding, pos, prefix=prefix)
    turned = frame.rotate(q, k, v)
    assert turned[0].shape == turned[1].shape and turned[0].shape[:3] == q.shape[:3]
    assert turned[0].shape[-1] >= q.shape[-1] and turned[2].shape == v.shape
    assert frame.attend(*turned).shape == v.shape
    short = pos[2:7]
    vectors, bias = encoding.embed(pos), encoding.bias(short, pos)
    content = encoding.content_bias(q[:, :, :5], k[:, :, prefix:], short, pos)
    assert vectors is None or vectors.shape == (tokens, DIM)
    assert bias is None or bias.shape == (HEADS, 5, tokens)
    assert content is None or content.shape == (2, HEADS, 5, tokens)
    for result in (vectors, bias, content, *turned):
        assert result is None or result.dtype == torch.float32


@pytest.mark.parametrize("word, setting", build.cases())
def test_bfloat16_parameters(word: str, setting: Setting) -> None:
    """After `.bfloat16()` tables and rotations are right to the rounding of the output."""
    encoding = build.encoding(word, setting)
    half, exact = copy.deepcopy(encoding).bfloat16(), through_bfloat16(encoding)
    pos = far(encoding, setting)
    with torch.no_grad():
        for place in ("embed", "bias"):
            arguments = (pos,) if place == "embed" else (pos[-9:], pos)
            here, there = getattr(half, place)(*arguments), getattr(exact, place)(*arguments)
            assert (here is None) == (there is None)
            if here is not None:
                near(here, there)
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(1, HEADS, len(pos), DIM // HEADS, generator=generator).bfloat16() for _ in range(3))
        turned, expected = half.rotate(q, k, v, pos), exact.rotate(q.float(), k.float(), v.float(), pos)
        for here, there in zip(turned, expected, strict=True):
            assert here.dtype == torch.bfloat16
            near(here, there)
        y = Frame(half, pos).attend(*turned)
        assert y.dtype == torch.bfloat16 and y.isfinite().all()


@pytest.mark.parametrize("word, setting", build.cases())
def test_autocast_changes_no_position(word: str, setting: Setting) -> None:
    """Inside CPU autocast embed, bias and rotate of float32 tensors are bit for bit those outside."""
    encoding = build.encoding(word, setting)
    here, there = far(encoding, setting), far(encoding, setting)  # two, since positions keep what was computed
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, len(here), DIM // HEADS, generator=generator) for _ in range(3))
    with torch.no_grad():
        outside = [encoding.embed(here), encoding.bias(here[-9:], here), *encoding.rotate(q, k, v, here)]
        with torch.autocast("cpu", torch.bfloat16):
            inside = [encoding.embed(there), encoding.bias(there[-9:], there), *encoding.rotate(q, k, v, there)]
    for one, other in zip(outside, inside, strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one.dtype == other.dtype and torch.equal(one, other))


def test_autocast_law_can_fail() -> None:
    """Angles by a matrix product are half precision under autocast."""

    class ByMatmul(PositionEncoding):
        def embed(self, pos: Positions) -> Tensor:
            return pos.coordinates.float() @ torch.full((1, self.spec.dim), 0.1)

    encoding, pos = ByMatmul(Spec(DIM, HEADS, (1200,), True)), Positions.line(1200)
    outside = encoding.embed(pos)
    with torch.autocast("cpu", torch.bfloat16):
        inside = encoding.embed(pos)
    assert not torch.equal(outside, inside)


@pytest.mark.parametrize("word, setting", build.model_cases())
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "autocast"])
def test_a_step_of_a_model(word: str, setting: Setting, kind: str) -> None:
    """Forward and backward in each precision: the dtype that it says, finite, gradients as the parameters."""
    model = build.model(word, setting)
    images = build.inputs(setting)
    if kind == "bfloat16":
        model = model.bfloat16()
        images = images if setting.causal else images.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        logits = model(images)
    assert logits.dtype == (torch.float32 if kind == "float32" else torch.bfloat16)
    assert logits.isfinite().all()
    logits.float().square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.dtype == (torch.bfloat16 if kind == "bfloat16" else torch.float32), name


@pytest.mark.parametrize("slope_head", [0, 1])
def test_near_keys_stay_apart_in_bfloat16(slope_head: int) -> None:
    """ALiBi as a distance, not as an absolute column: at position 4,000 neighbours still differ."""
    alibi = build.encoding("alibi", Setting("text", (4000,), True))
    bias = alibi.bias(Positions.line(1, 3999), Positions.line(4000))[slope_head, 0].bfloat16()
    assert len(bias[-8:].unique()) == 8
