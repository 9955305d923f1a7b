"""Attention in strips is attention: outputs and all gradients, held against every step written out in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from poslab.positions import Frame, Positions, Spec, frame, strips
from poslab.positions.alibi import ALiBi
from poslab.positions.t5 import T5
from tests.laws import build

HEADS, WIDTH = 3, 4
BIASES = {"each": (2, HEADS), "sample": (2, 1), "head": (1, HEADS), "all": (1, 1), "offsets": None}


def plainly(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float, shift: int | None) -> Tensor:
    rows, keys = q.shape[-2], k.shape[-2]
    i, j = torch.arange(rows)[:, None], torch.arange(keys)
    scores = scale * q @ k.mT + (bias if bias.ndim == 4 else bias[:, rows - 1 - i + j])
    return (scores if shift is None else scores.masked_fill(j > i + shift, -torch.inf)).softmax(-1) @ v


@pytest.mark.parametrize("kind", BIASES)
@pytest.mark.parametrize(
    ("rows", "keys", "shift"),
    [(1, 1, 0), (5, 5, None), (150, 150, 0), (130, 190, 60), (70, 200, None), (1, 90, 89), (150, 140, 3)],
)
def test_strips_are_attention(
    monkeypatch: pytest.MonkeyPatch, kind: str, rows: int, keys: int, shift: int | None
) -> None:
    monkeypatch.setattr(strips, "CACHED", 64 * 190 * HEADS)  # some strips take a sample at a time, others all
    torch.manual_seed(0)
    shape = BIASES[kind]
    bias = torch.randn(HEADS, rows + keys - 1) if shape is None else torch.randn(*shape, rows, keys)
    inputs = [torch.randn(2, HEADS, size, WIDTH) for size in (rows, keys, keys)] + [bias]
    inputs = [each.double().requires_grad_() for each in inputs]
    here, there = strips.attend(*inputs, 0.3, shift), plainly(*inputs, 0.3, shift)  # type: ignore[arg-type]
    torch.testing.assert_close(here, there, rtol=0, atol=1e-12)
    towards = torch.randn_like(here)
    for ours, theirs in zip(*(torch.autograd.grad(y, inputs, towards) for y in (here, there)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_a_bias_that_is_not_learned_gets_no_gradient() -> None:
    q, k, v = (torch.randn(1, 1, 3, 2, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, 5)
    strips.attend(q, k, v, bias, 1.0, 0).sum().backward()
    assert bias.grad is None and v.grad is not None


@pytest.mark.parametrize(("word", "length"), [("t5", 16), ("kerple", 16), ("alibi", 200), ("sandwich", 200)])
def test_a_bias_of_offsets_never_makes_all_pairs(monkeypatch: pytest.MonkeyPatch, word: str, length: int) -> None:
    """Learned ones at any length; the others from where one strip no longer holds them."""
    encoding = build.factory(word)(Spec(8, 2, (length,), causal=True))
    monkeypatch.setattr(type(encoding), "bias", lambda *_: pytest.fail("made all pairs"))
    q = torch.randn(1, 2, length, 4, requires_grad=True)
    Frame(encoding, Positions.line(length)).attend(q, q, q).sum().backward()


@pytest.mark.parametrize(("first", "rows"), [(0, 9), (4, 5), (8, 1)])
def test_the_line_of_a_bias_is_its_bias(first: int, rows: int) -> None:
    """Also where the queries are the last tokens of a text, as in generation."""
    spec = Spec(8, 2, (9,), causal=True)
    q_pos, k_pos = Positions.line(rows, first, 9), Positions.line(9)
    i, j = torch.arange(rows)[:, None], torch.arange(9)
    for encoding in (ALiBi(spec), T5(spec, max_distance=9, buckets=8)):
        cells = encoding.line(q_pos, k_pos)[:, rows - 1 - i + j]
        torch.testing.assert_close(cells, encoding.bias(q_pos, k_pos), rtol=0, atol=0)


@pytest.mark.parametrize("length", [5, 150])
def test_a_bias_of_pairs_is_made_as_it_goes(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """Outputs and the gradients of what is learned, at the ends of a strip too; and never for all pairs at once."""
    monkeypatch.setattr(frame, "MANY_PAIRS", 0)
    encoding = build.factory("fire")(Spec(8, 2, (length,), causal=True)).double()
    build.randomise(encoding)
    line = Positions.line(length)
    q, k, v = (torch.randn(2, 2, length, 4, dtype=torch.double, requires_grad=True) for _ in range(3))
    inputs = [q, k, v, *encoding.parameters()]
    makes, kept = [], encoding.bias

    def counted(q_pos: Positions, k_pos: Positions) -> Tensor:
        makes.append(len(q_pos))
        return kept(q_pos, k_pos)

    encoding.bias = counted  # type: ignore[method-assign]
    here = Frame(encoding, line).attend(q, k, v)
    towards = torch.randn_like(here)
    ours = torch.autograd.grad(here, inputs, towards)
    assert 0 < max(makes) <= strips.MADE_ROWS
    there = plainly(q, k, v, kept(line, line)[None], 0.5, 0)
    # its network is float32 in any model
    torch.testing.assert_close(here, there, rtol=0, atol=1e-6)
    for one, other in zip(ours, torch.autograd.grad(there, inputs, towards), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=5e-5)


def test_other_places_keep_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout of probabilities and half precision are not what strips are for."""
    encoding = ALiBi(Spec(8, 2, (6,), causal=True))
    q = torch.randn(1, 2, 6, 4)
    expected = Frame(encoding, Positions.line(6)).attend(q, q, q)
    monkeypatch.setattr(strips, "attend", lambda *_: pytest.fail("in strips"))
    Frame(encoding, Positions.line(6), dropout=0.5).attend(q, q, q)
    half = q.bfloat16()
    found = Frame(encoding, Positions.line(6)).attend(half, half, half)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.02)
