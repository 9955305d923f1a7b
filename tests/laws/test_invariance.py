"""What an encoding claims about shifts, norms and order, in both directions."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from poslab.positions import Frame, PositionEncoding, Positions, Sum
from poslab.positions.ops import Pairs, turn
from poslab.positions.rope import RoPE

from . import build
from .build import IMAGE, SETTINGS, TEXT, Setting

SAME, OTHER = 1e-5, 1e-3  # float32 rounding; a difference that means something


def with_variations() -> list:
    """Claims may depend on the configuration: (factory, setting) for each file and each key changed."""
    found = []
    for word in build.WORDS:
        for label, pos in [
            (word, build.factory(word)),
            *((f"{word}-{key}={value}", build.changed(word, key, value)) for key, value in build.variations(word)),
        ]:
            for setting in SETTINGS:
                why = build.refusal(pos, setting)
                marks = [pytest.mark.skip(reason=f"{label} in {setting.name}: {why}")] if why else []
                found.append(pytest.param(pos, setting, id=f"{label}-{setting.name}", marks=marks))
    return found


def attend(encoding: PositionEncoding, pos: Positions, tokens: Tensor) -> Tensor:
    """(T, C) of tokens (T, C) that are their own queries, keys and values: all five places of an encoding."""
    vectors = encoding.embed(pos)
    x = tokens if vectors is None else tokens + vectors
    x = x.unflatten(-1, (encoding.spec.heads, -1)).transpose(0, 1)[None]
    frame = Frame(encoding, pos)
    return frame.attend(*frame.rotate(x, x, x))[0].transpose(0, 1).flatten(1)


def moved(pos: Positions, *by: int) -> Positions:
    return Positions(pos.coordinates + torch.tensor(by), pos.extent)


def check_shift(encoding: PositionEncoding, setting: Setting) -> None:
    """shift_invariant exactly where the output stays as all positions move, along each axis alone."""
    # fewer tokens than the extent has places, so that the moved ones lie within it
    size = (9,) if len(setting.extent) == 1 else (3, 4)
    here = Positions(setting.positions(size).coordinates, setting.extent)
    tokens = torch.randn(len(here), encoding.spec.dim, generator=torch.Generator().manual_seed(0))
    shifts = [(5,), (15,)] if len(setting.extent) == 1 else [(1, 0), (0, 2), (1, 1)]
    with torch.no_grad():
        still = attend(encoding, here, tokens)
        gaps = [(attend(encoding, moved(here, *by), tokens) - still).abs().max() for by in shifts]
    if encoding.shift_invariant:
        assert max(gaps) < SAME, f"claims shift_invariant, moves by {max(gaps):.2g}"
    else:  # on a line far enough is enough: FIRE reads plain distance below a threshold
        least = max(gaps) if len(setting.extent) == 1 else min(gaps)
        assert least > OTHER, f"does not claim shift_invariant, moves only by {least:.2g}"


def check_norms(encoding: PositionEncoding, setting: Setting) -> None:
    """norm_preserving exactly where rotation keeps the norm of every q and k, prefix tokens too."""
    prefix = 0 if setting.causal else 2
    q, k, v = build.heads_of(setting, prefix=prefix)
    with torch.no_grad():
        turned_q, turned_k, _ = Frame(encoding, setting.positions(), prefix=prefix).rotate(q, k, v)
    gap = max((new.norm(dim=-1) / old.norm(dim=-1) - 1).abs().max() for new, old in ((turned_q, q), (turned_k, k)))
    if encoding.norm_preserving:
        assert gap < SAME, f"claims norm_preserving, norms change by {gap:.2g}"
    else:
        assert gap > OTHER, f"does not claim norm_preserving, norms change only by {gap:.2g}"


@pytest.mark.parametrize("pos, setting", with_variations())
def test_shift(pos: build.Factory, setting: Setting) -> None:
    check_shift(build.encoding(pos, setting), setting)


@pytest.mark.parametrize("word", ["rope+shaw", "rope+transformer_xl", "rope+cope"])
def test_turned_queries_tell_a_content_bias_where_they_are(word: str) -> None:
    """Parts that are relative alone, and a sum that is not."""
    both = build.encoding(word, TEXT)
    assert all(build.encoding(part, TEXT).shift_invariant for part in word.split("+"))
    assert not both.shift_invariant
    check_shift(both, TEXT)


@pytest.mark.parametrize("word, setting", build.cases((TEXT, IMAGE)))
def test_far_positions_are_told_apart(word: str, setting: Setting) -> None:
    """Scores 4,000 positions on, or 280 rows, are those at the start: half precision merges neighbours past 256."""
    encoding = build.encoding(word, setting)
    if not (encoding.shift_invariant and encoding.unbounded):
        pytest.skip(f"{word}: shift_invariant={encoding.shift_invariant}, unbounded={encoding.unbounded}")
    extent, near, far = ((4096,), (9,), (4000,)) if setting is TEXT else ((300, 8), (3, 4), (280, 2))
    here = Positions(setting.positions(near).coordinates, extent)
    tokens = torch.randn(len(here), encoding.spec.dim, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(
            attend(encoding, moved(here, *far), tokens), attend(encoding, here, tokens), rtol=0, atol=1e-4
        )


def turns(first: Pairs, second: Pairs, values: str = "plain") -> Sum:
    parts = {name: partial(RoPE, pairs=pairs, values=values) for name, pairs in (("one", first), ("two", second))}
    return Sum(TEXT.spec(), parts)


@pytest.mark.parametrize("second, relative", [("half", True), ("adj", False)])
def test_turns_of_channels_paired_otherwise_do_not_commute(second: Pairs, relative: bool) -> None:
    both = turns("half", second)
    assert both.shift_invariant == relative
    check_shift(both, TEXT)


def test_turned_values_are_turned_back_from_the_last_to_the_first() -> None:
    both, pos = turns("half", "adj", "relative"), TEXT.positions()
    q, k, v = build.heads_of(TEXT)
    turned = both.rotate(q, k, v, pos)[2]
    assert (turned - v).abs().max() > 1
    torch.testing.assert_close(both.unrotate(turned, pos), v)


@pytest.mark.parametrize("pos, setting", with_variations())
def test_norms(pos: build.Factory, setting: Setting) -> None:
    check_norms(build.encoding(pos, setting), setting)


@pytest.mark.parametrize("word, setting", build.cases((build.RASTER, IMAGE)))
def test_order_is_told(word: str, setting: Setting) -> None:
    """Without causality, only `none` commutes with a permutation of the tokens."""
    encoding, pos = build.encoding(word, setting), setting.positions()
    tokens = torch.randn(len(pos), build.DIM)
    order = torch.randperm(len(pos))
    with torch.no_grad():
        gap = (attend(encoding, pos, tokens[order]) - attend(encoding, pos, tokens)[order]).abs().max()
    acts = any(encoding.overrides(place) for place in ("embed", "rotate", "bias", "content_bias"))
    assert acts == (word != "none")
    assert gap > OTHER if acts else gap < SAME


@pytest.mark.parametrize("word, setting", build.cases())
def test_coordinates_decide(word: str, setting: Setting) -> None:
    """Tokens listed in another order together with their coordinates give the same outputs in that order."""
    encoding, pos = build.encoding(word, setting), setting.positions()
    tokens = torch.randn(len(pos), build.DIM)
    order = torch.randperm(len(pos))
    listed = Positions(pos.coordinates[order], pos.extent)
    with torch.no_grad():
        torch.testing.assert_close(attend(encoding, listed, tokens[order]), attend(encoding, pos, tokens)[order])


@pytest.mark.parametrize("word, setting", build.cases((IMAGE,)))
def test_shape_of_the_grid_is_told(word: str, setting: Setting) -> None:
    """The same tokens on 4x6 and on 2x12 differ; a line has no shape."""
    encoding = build.encoding(word, setting)
    tokens = torch.randn(24, build.DIM)
    flat = Positions.grid(2, 12)
    if not encoding.unbounded:
        pytest.skip(f"{word}: unbounded=False, 2x12 lies beyond")
    with torch.no_grad():
        gap = (attend(encoding, flat, tokens) - attend(encoding, setting.positions(), tokens)).abs().max()
    assert gap > OTHER if word != "none" else gap < SAME


# ---- could these laws fail? broken encodings that they must reject ----


class AbsoluteLeak(PositionEncoding):
    """A distance that is clipped at an absolute position."""

    shift_invariant = unbounded = True

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        q, k = q_pos.axis(0).clamp(max=10), k_pos.axis(0).clamp(max=10)
        return -(q[:, None] - k[None]).abs().float().expand(self.spec.heads, -1, -1)


class ClaimsTooLittle(AbsoluteLeak):
    """Relative, and says that it is not."""

    shift_invariant = False

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return -(q_pos.axis(0)[:, None] - k_pos.axis(0)[None]).abs().float().expand(self.spec.heads, -1, -1)


class MixedPairs(PositionEncoding):
    """A table laid out for halves, used on neighbouring channels: neither relative nor a rotation."""

    shift_invariant = unbounded = True

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        angle = pos.axis(0)[:, None] * 0.5 ** torch.arange(4)
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        swap = lambda x: torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)  # noqa: E731
        return q * cos + swap(q) * sin, k * cos + swap(k) * sin, v


class WrongSign(MixedPairs):
    """One sine with the wrong sign stretches."""

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        angle = pos.axis(0)[:, None] * 0.5 ** torch.arange(4)
        cos, sin = angle.cos(), angle.sin()
        wrong = lambda x: torch.cat((x[..., :4] * cos + x[..., 4:] * sin, x[..., :4] * sin + x[..., 4:] * cos), -1)  # noqa: E731
        return wrong(q), wrong(k), v


class RotatesQueriesOnly(MixedPairs):
    norm_preserving = False
    shift_invariant = False

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        angle = pos.axis(0)[:, None] * 0.5 ** torch.arange(4)
        return turn(q, angle.cos(), angle.sin(), "half"), k, v


@pytest.mark.parametrize("broken", [AbsoluteLeak, ClaimsTooLittle, MixedPairs])
def test_shift_law_can_fail(broken: type[PositionEncoding]) -> None:
    with pytest.raises(AssertionError, match="shift_invariant"):
        check_shift(broken(TEXT.spec()), TEXT)


@pytest.mark.parametrize("broken", [MixedPairs, WrongSign, RotatesQueriesOnly])
def test_norm_law_can_fail(broken: type[PositionEncoding]) -> None:
    with pytest.raises(AssertionError, match="norm_preserving"):
        check_norms(broken(TEXT.spec()), TEXT)
