"""Rules for longer inputs: against transformers, reference numbers, and what they must never remember."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from poslab.models import Cache
from poslab.positions import PositionEncoding, Positions, Spec
from poslab.positions.ops import frequencies
from poslab.positions.rope import RoPE
from poslab.positions.rope2d import RoPE2d
from poslab.positions.rope2d_mixed import RoPE2dMixed
from poslab.positions.scaling import NTK, DynamicNTK, Linear, Llama3, LongRoPE, Scaling, YaRN

from ..laws import build
from ..laws.build import CONFIGS, GRID, IMAGE, TEXT, Setting
from ..laws.test_compile import check_graphs
from ..reference import arrays, legend

REFERENCE = arrays("rotary1d")
WORDS = [word for word in build.FILES if "scaling" in yaml.safe_load((CONFIGS / f"{word}.yaml").read_text())]
RULES = sorted(path.stem for path in (CONFIGS / "scaling").glob("*.yaml") if path.stem != "none")


def close(here: Tensor, there: Tensor, rtol: float = 1e-12) -> None:
    torch.testing.assert_close(here.detach().double(), there.double(), rtol=rtol, atol=0)


def test_every_array_has_a_legend() -> None:
    names = [name.strip() for key in legend("rotary1d") for name in key.split(",")]
    for array in REFERENCE:
        assert any(array == name or (name[-1] == "*" and array.startswith(name[:-1])) for name in names), array


# ---- numbers ----

ARRAYS: dict[str, tuple[Callable[[int], Scaling], float, int, int]] = {  # rule by pairs, theta, size here, trained
    "linear_4": (lambda n: Linear(4), 1e4, 2048, 512),
    "dynamic_ntk_4": (lambda n: DynamicNTK(4), 1e4, 2048, 512),
    "dynamic_ntk_1": (lambda n: DynamicNTK(), 1e4, 2048, 512),
    "yarn_4": (lambda n: YaRN(), 1e4, 2048, 512),
    "yarn_16": (lambda n: YaRN(16), 1e4, 2048, 2048),
    "yarn_4_exact": (lambda n: YaRN(4, truncate=False), 1e4, 2048, 512),
    "llama3_8": (lambda n: Llama3(8), 5e5, 8192, 8192),
    "llama3_4": (lambda n: Llama3(), 1e4, 2048, 512),
    "longrope_short": (lambda n: LongRoPE([9.0] * n, [1.0] * n, 4), 1e4, 512, 512),
    "longrope_long": (
        lambda n: LongRoPE(torch.linspace(1, 4, n, dtype=torch.float64).tolist(), None, 4),
        1e4,
        513,
        512,
    ),
}


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("name", ARRAYS)
def test_reference_frequencies(name: str, width: int) -> None:
    make, theta, here, trained = ARRAYS[name]
    rule = make(width // 2)
    close(rule.frequencies(frequencies(width, theta), theta, here, trained), REFERENCE[f"{name}_{width}"])
    assert math.isclose(rule.magnitude(here, trained), float(REFERENCE[f"{name}_magnitude"]), rel_tol=1e-12)


def theirs(kind: str, width: int, theta: float, here: int, original: int, **options: Any) -> tuple[Tensor, float]:
    """Frequencies and attention factor of transformers."""
    transformers = pytest.importorskip("transformers")
    functions = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    config = transformers.LlamaConfig(
        hidden_size=2 * width,
        num_attention_heads=2,
        max_position_embeddings=original,
        rope_parameters={
            "rope_type": kind,
            "rope_theta": theta,
            **({} if kind in ("linear", "dynamic") else {"original_max_position_embeddings": original}),
            **options,
        },
    )
    return functions[kind](config, "cpu", seq_len=here)


@pytest.mark.parametrize("width, theta, original", [(8, 100.0, 14), (16, 100.0, 4096), (64, 5e5, 512), (128, 1e4, 24)])
@pytest.mark.parametrize("s", [1.0, 2.0, 7.5, 32.0])
@pytest.mark.parametrize("rule", ["linear", "dynamic", "yarn", "yarn exact", "yarn betas", "llama3", "longrope"])
def test_rules_of_transformers(rule: str, width: int, theta: float, original: int, s: float) -> None:
    """Where `factor` is given, and where the size decides it: the same numbers, to their float32."""
    pairs, here = width // 2, int(s * original)
    long, short = [1 + 0.3 * i for i in range(pairs)], [1 + 0.1 * i for i in range(pairs)]
    llama = {"low_freq_factor": 1.5, "high_freq_factor": 5.0}
    betas = {"beta_fast": 8.0, "beta_slow": 0.5}
    kind, options, make = {
        "linear": ("linear", {}, Linear),
        "dynamic": ("dynamic", {}, lambda factor: DynamicNTK(1.0 if factor is None else factor)),
        "yarn": ("yarn", {}, YaRN),
        "yarn exact": ("yarn", {"truncate": False}, lambda factor: YaRN(factor, truncate=False)),
        "yarn betas": ("yarn", betas, lambda factor: YaRN(factor, **betas)),
        "llama3": ("llama3", llama, lambda factor: Llama3(factor, low=1.5, high=5.0)),
        "longrope": (
            "longrope",
            {"long_factor": long, "short_factor": short},
            lambda factor: LongRoPE(long, short, factor),
        ),
    }[rule]
    # dynamic_ntk's own factor multiplies T / L0; the others' is s, which a missing factor takes from the size
    for factor, given in ((s, s), (None, 1.0 if rule == "dynamic" else s)):
        expected, magnitude = theirs(kind, width, theta, here, original, factor=given, **options)
        ours = make(factor)
        close(ours.frequencies(frequencies(width, theta), theta, here, original), expected, rtol=2e-6)
        assert math.isclose(ours.magnitude(here, original), magnitude, rel_tol=1e-6)
        if rule == "longrope":  # up to the original length, the other list
            expected, _ = theirs(kind, width, theta, original, original, factor=given, **options)
            close(ours.frequencies(frequencies(width, theta), theta, original, original), expected, rtol=2e-6)


@pytest.mark.parametrize("width, fraction", [(32, 1.0), (32, 0.5), (8, 1.0)])
def test_ntk_is_a_larger_theta(width: int, fraction: float) -> None:
    """theta * s^(R / (R - 2)) of the R channels that turn: the fastest pair stays, the slowest is divided by s."""
    turned = int(width * fraction)
    rope = RoPE(Spec(width, 1, (16,), True), fraction=fraction, scaling=NTK(4.0))
    expected = frequencies(turned, 1e4 * 4.0 ** (turned / (turned - 2)))
    close(rope.angles(Positions.line(2))[1], expected)
    close(expected[[0, -1]], frequencies(turned, 1e4)[[0, -1]] / torch.tensor([1.0, 4.0]))


def test_ntk_of_an_axis_counts_its_own_channels() -> None:
    """An axial encoding turns D/2 channels on each axis."""
    rope = RoPE2d(Spec(16, 1, (4, 4), False), scaling=NTK(3.0))
    row = rope.angles(Positions.grid(2, 1))[1, 4:]
    close(row, frequencies(8, 100 * 3.0 ** (8 / 6)))


def test_yarn_of_an_axis_too_short_to_turn() -> None:
    """Within 4 positions no pair turns once: all are slow, apart from the first, which the authors' ramp keeps."""
    slow = YaRN(2.0).frequencies(frequencies(8, 100.0), 100.0, 8, 4)
    close(slow, frequencies(8, 100.0) / torch.tensor([1.0, 2, 2, 2]))


def test_llama3_of_a_learned_frequency_reads_its_wavelength() -> None:
    """A negative frequency turns the other way, at the same wavelength."""
    f = frequencies(16, 1e4)
    here, there = (Llama3(4.0).frequencies(x, 1e4, 2048, 512) for x in (f, -f))
    assert torch.equal(here, -there)


# ---- nothing is remembered ----


def test_dynamic_ntk_forgets() -> None:
    """512 positions after 2,048 are 512 positions: cos at position 100, pair 20."""
    rope = RoPE(Spec(64, 1, (512,), True), scaling=DynamicNTK(4.0))
    cos = [float(rope.cos_sin(Positions.line(length))[0][100, 20]) for length in (512, 2048, 512)]
    assert [round(c, 6) for c in cos] == [0.950415, 0.998174, 0.950415]


class Pairs(Scaling):
    """Changes nothing, and notes how many pairs an axis has."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: set[int] = set()

    def frequencies(self, frequency: Tensor, theta: float, extent: int, trained: int) -> Tensor:
        self.counts.add(frequency.shape[-1])
        return frequency


def setting_of(word: str) -> Setting:
    return next(s for s in (TEXT, IMAGE) if build.refusal(build.factory(word), s) is None)


def scaled(word: str, rule: str, **changes: Any) -> build.Factory:
    """The word with the rule as its file has it; longrope's lists, which have no default, by number of pairs."""
    file = yaml.safe_load((CONFIGS / "scaling" / f"{rule}.yaml").read_text())
    if rule == "longrope":
        probe, setting = Pairs(), setting_of(word)
        encoding = build.encoding(build.factory(word, scaling=probe), setting)
        encoding.rotate(*build.heads_of(setting), setting.positions())
        (count,) = probe.counts
        file |= {"long": [1 + 0.5 * i for i in range(count)]}
    return build.factory(word, scaling=file | changes)


def rotated(encoding: PositionEncoding, setting: Setting, size: tuple[int, ...]) -> list[Tensor]:
    with torch.no_grad():
        return list(encoding.rotate(*build.heads_of(setting, size), setting.positions(size)))


def test_the_enumeration_finds_words_and_rules() -> None:
    assert {"rope", "rope2d", "rope2d_mixed", "xpos", "pope"} <= set(WORDS)
    assert RULES == ["dynamic_ntk", "linear", "llama3", "longrope", "ntk", "yarn"]


@pytest.mark.parametrize("width", [8, 32, 48, 128])
@pytest.mark.parametrize(
    "rule", [Linear(), NTK(), DynamicNTK(), DynamicNTK(4.0), YaRN(), YaRN(truncate=False), Llama3()]
)
def test_frequencies_of_training_are_exact(rule: Scaling, width: int) -> None:
    """To the last bit of float64, which float32 cosines would hide."""
    for theta, trained in ((100.0, 14), (1e4, 24), (1e4, 1024), (5e5, 8192)):
        f = frequencies(width, theta)
        assert torch.equal(rule.frequencies(f, theta, trained, trained), f)
        assert torch.equal(rule.frequencies(f, theta, trained // 2, trained), f)
        assert rule.magnitude(trained, trained) == 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("word", WORDS)
def test_the_trained_size_is_left_alone(word: str, rule: str) -> None:
    """Bit for bit, where the size decides how far to stretch."""
    setting = setting_of(word)
    plain, ruled = (build.encoding(pos, setting) for pos in (build.factory(word), scaled(word, rule)))
    shorter = tuple(side // 2 for side in setting.extent)
    for size in (setting.extent, shorter):
        for here, there in zip(rotated(plain, setting, size), rotated(ruled, setting, size), strict=True):
            assert torch.equal(here, there)
    larger = tuple(3 * side for side in setting.extent)
    gaps = [
        (here - there).abs().max()
        for here, there in zip(rotated(plain, setting, larger), rotated(ruled, setting, larger), strict=True)
    ]
    # coordinates that are a share of the grid reach no further on a larger one, and say so through `reach`
    stays = getattr(plain, "reference", None) is not None
    assert (max(gaps[:2]) == 0) if stays else (min(gaps[:2]) > 1e-3)
    assert gaps[2] == 0


@pytest.mark.parametrize("factor", [None, 2.0])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("word", WORDS)
def test_every_word_with_every_rule(word: str, rule: str, factor: float | None) -> None:
    """A model builds, runs at the trained size and at four times it, and forgets which came first."""
    setting = setting_of(word)
    pos = scaled(word, rule, **({} if factor is None else {"factor": factor}))
    four = tuple(4 * side for side in setting.extent)
    two = tuple(2 * side for side in setting.extent)
    used = build.model(pos, setting)
    with torch.no_grad():
        for size in (setting.extent, four, two, setting.extent):
            fresh, inputs = build.model(pos, setting), build.inputs(setting, size)
            result = used(inputs)
            assert result.isfinite().all()
            assert torch.equal(result, fresh(inputs)), f"{size} reads what another size left behind"


@pytest.mark.parametrize("rule", RULES)
def test_64_256_128_64(rule: str) -> None:
    """Trained at 64: any order of lengths gives what a fresh encoding gives, bit for bit."""
    setting = Setting("text", (64,), True)
    used = build.encoding(scaled("rope", rule), setting)
    for length in (64, 256, 128, 64):
        fresh = build.encoding(scaled("rope", rule), setting)
        for here, there in zip(rotated(used, setting, (length,)), rotated(fresh, setting, (length,)), strict=True):
            assert torch.equal(here, there)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("word", [word for word in WORDS if setting_of(word) is TEXT])
@pytest.mark.parametrize("chunk", [1, 5])
def test_cached_is_whole_beyond_the_trained_extent(word: str, rule: str, chunk: int) -> None:
    """The extent is that of the whole generation, so early keys are turned as the full pass turns them."""
    gpt, tokens = build.model(scaled(word, rule), TEXT), build.inputs(TEXT, (60,))
    with torch.no_grad():
        cache = Cache(build.DEPTH, 60)
        pieces = [gpt(tokens[:, first : first + chunk], cache) for first in range(0, 60, chunk)]
        torch.testing.assert_close(torch.cat(pieces, dim=1), gpt(tokens), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("word", WORDS)
def test_original_is_the_extent_that_counts(word: str, rule: str) -> None:
    """`original` in a model of another extent is the rule in a model trained at `original`."""
    setting = setting_of(word)
    small = Setting(setting.name, (6,) * len(setting.extent), setting.causal)
    size = (17,) if setting is TEXT else (9, 13)
    told = build.encoding(scaled(word, rule, original=6), setting)
    if getattr(told, "reference", None):
        pytest.skip(f"{word}: all grids reach as far as its reference, the trained extent has no say")
    trained = build.encoding(scaled(word, rule), small)
    for here, there in zip(rotated(told, setting, size), rotated(trained, small, size), strict=True):
        assert torch.equal(here, there)


# ---- two axes ----


@pytest.mark.parametrize("rule", RULES)
def test_each_axis_has_its_own_stretch(rule: str) -> None:
    """A grid that is longer along its rows only leaves the angles of columns bit-exact, and the other way round."""
    rope = build.encoding(scaled("rope2d", rule), IMAGE)
    assert isinstance(rope, RoPE2d)
    quarter = rope.spec.head_dim // 4
    rows, columns = GRID
    plain = RoPE2d(rope.spec)
    for grid, stretched in (((3 * rows, columns), 0), ((rows, 3 * columns), 1)):
        pos = Positions.grid(*grid)
        x, y = rope.angles(pos).split(quarter, dim=1)  # the columns' pairs come first
        plain_x, plain_y = plain.angles(pos).split(quarter, dim=1)
        kept, changed = ((x, plain_x), (y, plain_y)) if stretched == 0 else ((y, plain_y), (x, plain_x))
        assert torch.equal(*kept)
        assert (changed[0] - changed[1]).abs().max() > 0.1


@pytest.mark.parametrize("rule", RULES)
def test_each_axis_has_its_own_stretch_in_mixed_angles(rule: str) -> None:
    """In the first row only columns turn, in the first column only rows."""
    mixed = build.encoding(scaled("rope2d_mixed", rule), IMAGE)
    assert isinstance(mixed, RoPE2dMixed)
    plain = build.encoding("rope2d_mixed", IMAGE)
    assert isinstance(plain, RoPE2dMixed)
    rows, columns = GRID
    for grid, stretched in (((3 * rows, columns), 0), ((rows, 3 * columns), 1)):
        pos = Positions.grid(*grid)
        here, there = mixed.angles(pos), plain.angles(pos)
        first_row, first_column = pos.axis(0) == 0, pos.axis(1) == 0
        kept, changed = (first_row, first_column) if stretched == 0 else (first_column, first_row)
        assert torch.equal(here[:, kept], there[:, kept])
        assert (here[:, changed] - there[:, changed]).abs().max() > 0.1


def test_linear_in_two_axes_is_a_division() -> None:
    rope = RoPE2d(Spec(8, 1, (4, 6), False), scaling=Linear())
    angle = rope.angles(Positions.grid(8, 18))
    close(angle[18 * 3 + 5], torch.tensor([5 / 3, 0.5 / 3, 3 / 2, 0.3 / 2], dtype=torch.float64))


def test_mixed_frequencies_are_scaled_by_their_magnitude() -> None:
    """Both halves of the pairs run through the magnitudes: ntk leaves the first of each half, divides the last."""
    mixed = build.encoding(scaled("rope2d_mixed", "ntk", factor=5.0), IMAGE)
    plain = build.encoding("rope2d_mixed", IMAGE)
    assert isinstance(mixed, RoPE2dMixed) and isinstance(plain, RoPE2dMixed)
    here, there = (e.angles(Positions.grid(1, 2))[:, 1].unflatten(-1, (2, -1)) for e in (mixed, plain))
    close(here[..., 0], there[..., 0], 1e-6)
    close(here[..., -1], there[..., -1] / 5, 1e-6)


# ---- what is scaled, and what is not ----


@pytest.mark.parametrize("values", ["rotated", "relative"])
def test_the_magnitude_is_for_q_and_k(values: Any) -> None:
    """Values that are turned too keep their norm, and turning them back gives them back."""
    rope = RoPE(TEXT.spec(), values=values, scaling=YaRN(4.0))
    pos = TEXT.positions()
    q, k, v = build.heads_of(TEXT)
    turned_q, turned_k, turned_v = rope.rotate(q, k, v, pos)
    magnitude = 0.1 * math.log(4) + 1
    for new, old in ((turned_q, q), (turned_k, k)):
        close(new.norm(dim=-1), magnitude * old.norm(dim=-1), 1e-5)
    close(turned_v.norm(dim=-1), v.norm(dim=-1), 1e-5)
    if values == "relative":
        torch.testing.assert_close(rope.unrotate(turned_v, pos), v)


def test_images_grow_by_the_mean_of_their_axes() -> None:
    """The geometric mean, so that a square grid grows as a text."""
    rope = RoPE2d(Spec(8, 1, (4, 6), False), scaling=YaRN())
    square, flat = rope.magnitude(Positions.grid(12, 18)), rope.magnitude(Positions.grid(12, 6))
    assert math.isclose(square, 0.1 * math.log(3) + 1) and math.isclose(flat, square**0.5)


# ---- refusals, and a compiler ----


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: Linear(0.5), "factor of 1 or more"),
        (lambda: Linear(original=0), "number of positions"),
        (lambda: YaRN(beta_fast=1, beta_slow=2), "beta_fast > beta_slow"),
        (lambda: Llama3(low=4, high=1), "high > low"),
        (lambda: LongRoPE([1.0, 0.0]), "above 0"),
        (lambda: RoPE(Spec(2, 1, (8,), True), scaling=NTK(2.0)), "two pairs"),
        (lambda: RoPE(Spec(8, 1, (8,), True), theta=1.0, scaling=YaRN(2.0)).angles(Positions.line(3)), "theta"),
        (lambda: RoPE(Spec(8, 1, (8,), True), scaling=LongRoPE([1.0, 2.0])), "4 pairs"),
        (lambda: LongRoPE([1.0, 2.0]).magnitude(4, 1), "one position"),
    ],
)
def test_what_has_no_value_is_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_dynamic_ntk_without_a_factor() -> None:
    """null is 1 there: s = T / L0, as in the other rules."""
    f = frequencies(16, 1e4)
    assert torch.equal(DynamicNTK(None).frequencies(f, 1e4, 30, 10), DynamicNTK().frequencies(f, 1e4, 30, 10))  # type: ignore[arg-type]
    close(DynamicNTK().frequencies(f, 1e4, 30, 10), NTK(3.0).frequencies(f, 1e4, 30, 10))


@pytest.mark.full
@pytest.mark.parametrize("rule", ["dynamic_ntk", "longrope", "yarn"])
def test_two_graphs_where_the_size_decides(rule: str) -> None:
    """Grids on both sides of the trained one, in each axis."""
    check_graphs(scaled("rope2d", rule), IMAGE, gradients=True)
