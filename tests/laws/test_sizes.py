"""Other lengths and grids than the trained one: defined or refused, and never remembered."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from poslab.positions import Frame, NotDefined, Positions, Spec
from poslab.positions.learned import Learned

from . import build
from .build import GRID, IMAGE, TEXT, Setting

SIZES: dict[bool, list[tuple[int, ...]]] = {
    True: [(24,), (70,), (3,), (24,), (41,)],
    False: [GRID, (4, 9), (6, 6), (3, 5), (2, 12), GRID],
}


def run(model: nn.Module, setting: Setting, size: tuple[int, ...]) -> torch.Tensor | str:
    """Outputs at a size, or the sentence that refuses it."""
    with torch.no_grad():
        try:
            return model(build.inputs(setting, size))
        except NotDefined as error:
            return str(error)


def same(here: torch.Tensor | str, there: torch.Tensor | str) -> bool:
    if isinstance(here, str) or isinstance(there, str):
        return here == there
    return torch.equal(here, there)


def check_forgets(model: nn.Module, setting: Setting) -> None:
    """Every size, after any other, gives bit for bit what a model gives that saw no other."""
    fresh = {size: run(copy.deepcopy(model), setting, size) for size in SIZES[setting.causal]}
    for size in [*SIZES[setting.causal], *reversed(SIZES[setting.causal])]:
        assert same(run(model, setting, size), fresh[size]), f"{size} reads what another size left behind"


@pytest.mark.parametrize("word, setting", build.model_cases())
def test_sizes_in_any_order(word: str, setting: Setting) -> None:
    check_forgets(build.model(word, setting), setting)


def test_a_memory_is_seen() -> None:
    """Could it fail? A table kept by the number of tokens: 4x9 is then read at 6x6."""

    class Remembers(Learned):
        def embed(self, pos: Positions) -> torch.Tensor:
            kept = self.__dict__.setdefault("kept", {})
            return kept.setdefault(len(pos), super().embed(pos))

    with pytest.raises(AssertionError, match="left behind"):
        check_forgets(build.model(Remembers, IMAGE), IMAGE)


def test_a_moving_extent_is_seen() -> None:
    """Could it fail? The longest text so far decides a frequency."""

    class Longest(Learned):
        longest = 0

        def embed(self, pos: Positions) -> torch.Tensor:
            self.longest = max(self.longest, len(pos))
            return self.table.mean() * pos.axis(0)[:, None] / self.longest

        unbounded = True  # type: ignore[assignment]

    with pytest.raises(AssertionError, match="left behind"):
        check_forgets(build.model(Longest, TEXT), TEXT)


@pytest.mark.parametrize("word, setting", build.model_cases())
@pytest.mark.parametrize("factor", [2, 3])
def test_beyond_the_extent(word: str, setting: Setting, factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """unbounded: finite. Otherwise NotDefined, which names both sizes, before anything is looked up."""
    model = build.model(word, setting)
    encoding = model.trunk.encoding
    size = tuple(factor * side for side in (setting.extent if setting.causal else GRID))
    if encoding.unbounded:
        result = run(model, setting, size)
        assert isinstance(result, torch.Tensor) and result.isfinite().all()
        return
    for place in ("embed", "rotate", "bias", "content_bias"):
        monkeypatch.setattr(type(encoding), place, lambda *_: pytest.fail("looked up before it was refused"))
    with pytest.raises(NotDefined) as refused:
        model(build.inputs(setting, size))
    assert isinstance(refused.value, ValueError)
    for extent in (encoding.spec.extent, size if len(size) == len(encoding.spec.extent) else (math.prod(size),)):
        assert "x".join(map(str, extent)) in str(refused.value)


@pytest.mark.parametrize("word, setting", build.cases((TEXT,)))
def test_generation_beyond_the_extent_is_refused_at_its_start(word: str, setting: Setting) -> None:
    gpt = build.model(word, setting)
    prompt = build.inputs(setting, (20,))
    if gpt.trunk.encoding.unbounded:
        assert gpt.generate(prompt, 20, temperature=0).shape == (2, 40)
    else:
        with pytest.raises(NotDefined, match=r"24.*40"):
            gpt.generate(prompt, 20)


@pytest.mark.parametrize("word", [word for word in build.WORDS if build.refusal(build.factory(word), IMAGE) is None])
@pytest.mark.parametrize("grid", [(14, 14), (6, 6)])
def test_same_count_other_shape(word: str, grid: tuple[int, int]) -> None:
    """14x14 then 7x28, 6x6 then 4x9: as a model that never saw the square."""
    flat = (grid[0] // 2, grid[1] * 2) if grid == (14, 14) else (4, 9)
    sizes = {"image_size": (grid[0] * build.PATCH[0], grid[1] * build.PATCH[1])}
    used, fresh = build.model(word, IMAGE, **sizes), build.model(word, IMAGE, **sizes)
    square = run(used, IMAGE, grid)
    assert same(run(used, IMAGE, flat), run(fresh, IMAGE, flat))
    assert same(run(used, IMAGE, grid), square)


# ---- learned tables ----


@pytest.mark.parametrize("resample", ["bicubic", "bilinear", "none"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("align_corners", [True, False])
def test_trained_grid_is_the_identity(resample: str, antialias: bool, align_corners: bool) -> None:
    table = build.encoding(
        build.factory("learned", resample=resample, antialias=antialias, align_corners=align_corners), IMAGE
    )
    assert torch.equal(table.embed(Positions.grid(*GRID)), table.table.flatten(0, 1))
    assert table.embed(Positions.grid(*GRID)).unflatten(0, GRID)[2, 5].equal(table.table[2, 5])


@pytest.mark.parametrize("past", ["error", "interpolate"])
def test_trained_length_is_the_identity(past: str) -> None:
    table = build.encoding(build.factory("learned", past=past), TEXT)
    for length in (TEXT.extent[0], 5):
        assert torch.equal(table.embed(Positions.line(length)), table.table[:length])


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("align_corners", [True, False])
def test_every_number_of_patches_is_reached_exactly(antialias: bool, align_corners: bool) -> None:
    learned = Learned(Spec(4, 1, (14, 14), False), antialias=antialias, align_corners=align_corners)
    with torch.no_grad():
        for count in range(1, 147):
            for grid in ((count, 3), (2, count)):
                vectors = learned.embed(Positions.grid(*grid))
                assert vectors.shape == (grid[0] * grid[1], 4) and vectors.isfinite().all()


def test_a_constant_table_stays_constant() -> None:
    """Resampling weights sum to one, at every size and in bfloat16 too."""
    for dtype in (torch.float32, torch.bfloat16):
        learned = Learned(Spec(4, 1, (4, 6), False)).to(dtype)
        nn.init.constant_(learned.table, 1.5)
        for grid in ((2, 3), (9, 5), (4, 7)):
            torch.testing.assert_close(
                learned.embed(Positions.grid(*grid)).float(), torch.full((grid[0] * grid[1], 4), 1.5)
            )


def test_stretching_goes_through_the_ends() -> None:
    """past: interpolate keeps the first and last vector and moves evenly between."""
    learned = Learned(Spec(2, 1, (3,), True), past="interpolate")
    with torch.no_grad():
        learned.table.copy_(torch.tensor([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]]))
        stretched = learned.embed(Positions.line(5))
    torch.testing.assert_close(stretched, torch.tensor([[0, 0], [0.5, 5], [1, 10], [1.5, 15], [2, 20]]))


def test_a_frame_refuses_by_itself() -> None:
    """Attention cannot be reached with positions that a bounded encoding does not have."""
    learned = Learned(Spec(4, 1, (8,), True))
    Frame(learned, Positions.line(8))
    with pytest.raises(NotDefined, match="up to 8, the input reaches 9"):
        Frame(learned, Positions.line(9))


# ---- fine-tuning at another size ----


@pytest.mark.parametrize("word, setting", build.cases())
def test_adopted_at_another_extent(word: str, setting: Setting) -> None:
    """What a larger encoding adopts is what the smaller one says there, and the same at the same extent.

    One that has no value at the larger extent may refuse.
    """
    learned = build.factory("learned", past="interpolate") if word == "learned" else build.factory(word)
    trained = build.encoding(learned, setting)
    for times in (1, 2):
        extent = tuple(times * side for side in setting.extent)
        adopting = learned(Setting(setting.name, extent, setting.causal).spec())
        try:
            adopting.adopt(trained)
        except NotDefined:
            assert times == 2 and not trained.unbounded
            continue
        here, there = adopting.embed(setting.positions(extent)), trained.embed(setting.positions(extent))
        assert (here is None) == (there is None)
        assert here is None or torch.equal(here, there)
