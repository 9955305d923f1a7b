"""Vectors for the tokens: other people's modules, reference arrays, and plain loops beside them."""

from __future__ import annotations

import inspect
import math
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poslab.positions import Frame, NotDefined, Positions, Spec
from poslab.positions.fourier2d import Fourier2d
from poslab.positions.learned import Learned
from poslab.positions.learned2d import Learned2d
from poslab.positions.learned_sine import LearnedSine
from poslab.positions.onehot import OneHot
from poslab.positions.ops import stretch
from poslab.positions.sine import Sine
from poslab.positions.sine2d import Layout, Sine2d
from poslab.positions.sine2d_detr import Sine2dDETR

from ..reference import arrays, legend
from .copying import put, put_linear

REFERENCE = arrays("tokens")
GRIDS = [(3, 4), (5, 2), (1, 7)]


def image(dim: int, rows: int = 3, columns: int = 4) -> Spec:
    return Spec(dim, 1, (rows, columns), False)


def text(dim: int, length: int = 8) -> Spec:
    return Spec(dim, 1, (length,), True)


def close(here: Tensor, there: Tensor, atol: float = 2e-6) -> None:
    assert here.shape == there.shape
    torch.testing.assert_close(here.detach().double(), there.detach().double(), rtol=1e-5, atol=atol)


def random(*tensors: Tensor) -> None:
    with torch.no_grad():
        for tensor in tensors:
            tensor.normal_()


def test_every_array_has_a_legend() -> None:
    assert {name.strip() for key in legend("tokens") for name in key.split(",")} == set(REFERENCE)


# ---- sines ----


@pytest.mark.parametrize("layout", ["interleaved", "concat"])
def test_sine_with_endpoint(layout: Literal["interleaved", "concat"]) -> None:
    close(Sine(text(8), layout=layout, endpoint=True).embed(Positions.line(5)), REFERENCE[f"sine_{layout}_endpoint"])


@pytest.mark.parametrize("theta", [10_000.0, 100.0])
def test_learned_sine_is_that_of_x_transformers(theta: float) -> None:
    peers = pytest.importorskip("x_transformers.x_transformers")
    theirs, ours = peers.ScaledSinusoidalEmbedding(12, theta=theta), LearnedSine(text(12), theta=theta)
    assert torch.equal(ours.amplitude, theirs.scale)
    random(theirs.scale)
    put(ours.amplitude, theirs.scale)
    close(ours.embed(Positions.line(64)), theirs(torch.zeros(1, 64, 12)), atol=1e-5)
    close(ours.embed(Positions.line(9, 30)), theirs(torch.zeros(1, 9, 12), offset=30), atol=1e-5)


def test_learned_sine_is_a_scaled_sine() -> None:
    learned = LearnedSine(text(8))
    nn.init.constant_(learned.amplitude, -0.3)
    close(learned.embed(Positions.line(40)), Sine(text(8), layout="concat", scale=-0.3).embed(Positions.line(40)))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("layout, interleave", [("timm", False), ("moco", True)])
@pytest.mark.parametrize("theta", [10_000.0, 50.0])
def test_sine2d_is_that_of_timm(grid: tuple[int, int], layout: Layout, interleave: bool, theta: float) -> None:
    layers = pytest.importorskip("timm.layers")
    theirs = layers.build_sincos2d_pos_embed(list(grid), 16, temperature=theta, interleave_sin_cos=interleave)
    close(Sine2d(image(16), theta=theta, layout=layout).embed(Positions.grid(*grid)), theirs)


def test_sine2d_is_that_of_mae() -> None:
    """What the checkpoints of MAE were trained with, on their square grid."""
    transformers = pytest.importorskip("transformers")
    mae = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")
    config = transformers.ViTMAEConfig(hidden_size=16, num_attention_heads=2, image_size=20, patch_size=4)
    theirs = mae.ViTMAEEmbeddings(config)
    theirs.initialize_weights()
    close(Sine2d(image(16), layout="mae").embed(Positions.grid(5, 5)), theirs.position_embeddings[0, 1:])


@pytest.mark.parametrize("normalize, name", [(True, "normalized"), (False, "counted")])
def test_detr_sine(normalize: bool, name: str) -> None:
    sine = Sine2dDETR(image(16), normalize=normalize)
    close(sine.embed(Positions.grid(3, 4)), REFERENCE[f"sine2d_detr_{name}"])


def detr(name: str, grid: tuple[int, int], dim: int, **keys: Any) -> tuple[Any, Tensor]:
    """A module of theirs for half of the channels, and (T, C) of what it says on a grid."""
    module = getattr(pytest.importorskip("transformers.models.detr.modeling_detr"), name)(dim // 2, **keys)
    if "shape" not in inspect.signature(module.forward).parameters:
        pytest.skip("this version of transformers asks for pixels and masks")
    vectors = module(torch.Size((1, dim, *grid)), torch.device("cpu"), torch.float32)
    return module, vectors[0].flatten(1).T


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("keys", [{}, {"normalize": False}, {"scale": 9.0}, {"theta": 20.0}], ids=str)
def test_detr_sine_is_that_of_transformers(grid: tuple[int, int], keys: dict[str, Any]) -> None:
    names = {"theta": "temperature"}
    options = {"normalize": True} | {names.get(key, key): value for key, value in keys.items()}
    _, theirs = detr("DetrSinePositionEmbedding", grid, 16, **options)
    close(Sine2dDETR(image(16), **keys).embed(Positions.grid(*grid)), theirs, atol=1e-5)


def test_detr_scale_is_of_a_normalised_side() -> None:
    with pytest.raises(ValueError, match="scale=3"):
        Sine2dDETR(image(16), normalize=False, scale=3.0)


# ---- tables ----


@pytest.mark.parametrize("grid", GRIDS)
def test_detr_table_is_that_of_transformers(grid: tuple[int, int]) -> None:
    module, theirs = detr("DetrLearnedPositionEmbedding", grid, 12)
    ours = Learned2d(image(12, 50, 50), resample="none")
    put(ours.rows, module.row_embeddings.weight)
    put(ours.columns, module.column_embeddings.weight)
    assert torch.equal(ours.embed(Positions.grid(*grid)), theirs)


@pytest.mark.parametrize("combine", ["concat", "sum"])
@pytest.mark.parametrize("resample", ["linear", "none"])
def test_learned2d_is_a_double_loop(combine: Literal["concat", "sum"], resample: Literal["linear", "none"]) -> None:
    learned = Learned2d(image(6), combine=combine, resample=resample)
    vectors = learned.embed(Positions.grid(3, 4)).view(3, 4, 6)
    for row in range(3):
        for column in range(4):
            x, y = learned.columns[column], learned.rows[row]
            assert torch.equal(vectors[row, column], torch.cat((x, y)) if combine == "concat" else x + y)


def test_learned2d_starts() -> None:
    """U(0, s) is one-sided, N(0, s^2) is not; s is 1 in DETR."""
    uniform = Learned2d(image(64, 40, 30)).rows.detach()
    assert uniform.shape == (40, 32) and 0 <= uniform.min() < 0.01 and 0.99 < uniform.max() < 1
    assert Learned2d(image(64, 40, 30), init_scale=3.0).columns.detach().max() > 2.9
    normal = Learned2d(image(64, 40, 30), combine="sum", init="normal", init_scale=0.02).columns.detach()
    assert normal.shape == (30, 64)
    assert abs(float(normal.mean())) < 0.002 and abs(float(normal.std()) - 0.02) < 0.002


def between(table: Tensor, place: float) -> Tensor:
    """The row at a place between two, the ends beyond them."""
    place = min(max(place, 0.0), len(table) - 1.0)
    low = min(int(place), len(table) - 2)
    return table[low] * (low + 1 - place) + table[low + 1] * (place - low)


@pytest.mark.parametrize("size", [2, 4, 5, 9])
@pytest.mark.parametrize("align_corners", [True, False])
def test_stretch_is_a_loop(size: int, align_corners: bool) -> None:
    table = torch.randn(4, 3)
    stretched = stretch(table, size, align_corners)
    for index in range(size):
        place = index * 3 / (size - 1) if align_corners else (index + 0.5) * 4 / size - 0.5
        close(stretched[index], between(table, place))


def test_stretch_to_its_own_size_is_the_identity() -> None:
    table = torch.randn(7, 3)
    assert all(torch.equal(stretch(table, 7, align), table) for align in (True, False))


@pytest.mark.parametrize("grid", [(6, 4), (3, 9), (2, 3), (5, 7)])
@pytest.mark.parametrize("align_corners", [True, False])
def test_learned2d_resamples_each_axis_by_itself(grid: tuple[int, int], align_corners: bool) -> None:
    learned = Learned2d(image(6), align_corners=align_corners)
    vectors = learned.embed(Positions.grid(*grid)).view(*grid, 6)
    rows, columns = stretch(learned.rows, grid[0], align_corners), stretch(learned.columns, grid[1], align_corners)
    for row in range(grid[0]):
        for column in range(grid[1]):
            assert torch.equal(vectors[row, column], torch.cat((columns[column], rows[row])))


def test_learned2d_without_resampling_is_absolute() -> None:
    learned = Learned2d(image(6), resample="none")
    small, whole = learned.embed(Positions.grid(2, 3)), learned.embed(Positions.grid(3, 4)).view(3, 4, 6)
    assert torch.equal(small.view(2, 3, 6), whole[:2, :3])
    for grid in ((4, 4), (3, 5)):
        with pytest.raises(NotDefined, match=f"3x4.*{grid[0]}x{grid[1]}"):
            learned.embed(Positions.grid(*grid))
        with pytest.raises(NotDefined, match=f"3x4.*{grid[0]}x{grid[1]}"):
            Frame(learned, Positions.grid(*grid))
        with pytest.raises(NotDefined, match=f"3x4.*{grid[0]}x{grid[1]}"):
            Learned2d(image(6, *grid), resample="none").adopt(learned)
    smaller = Learned2d(image(6, 2, 3), resample="none")
    smaller.adopt(learned)
    assert torch.equal(smaller.embed(Positions.grid(2, 3)), small)


@pytest.mark.parametrize("grid", [(4, 6), (6, 6), (8, 3), (2, 2)])
@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("prefix", [0, 2])
def test_learned_is_resampled_as_by_timm(
    grid: tuple[int, int], mode: Literal["bicubic", "bilinear"], antialias: bool, align_corners: bool, prefix: int
) -> None:
    """Rows in front of theirs belong to tokens without a position, and stay as they are."""
    layers = pytest.importorskip("timm.layers")
    learned = Learned(image(5, 4, 6), resample=mode, antialias=antialias, align_corners=align_corners)
    random(learned.table)
    table = torch.cat((torch.randn(prefix, 5), learned.table.flatten(0, 1)))[None]
    theirs = layers.resample_abs_pos_embed(
        table, list(grid), [4, 6], prefix, interpolation=mode, antialias=antialias, align_corners=align_corners
    )[0]
    assert torch.equal(theirs[:prefix], table[0, :prefix])
    close(learned.embed(Positions.grid(*grid)), theirs[prefix:], atol=1e-5)


def test_learned_text_past_the_table_is_refused_everywhere() -> None:
    """Also where no Frame asks first: an encoding of a longer text that starts from a shorter one."""
    learned = Learned(text(4))
    for refused in (
        lambda: learned.embed(Positions.line(9)),
        lambda: Learned(text(4, 12)).adopt(learned),
    ):
        with pytest.raises(NotDefined, match=r"8 positions.*(9|12)"):
            refused()
    shorter = Learned(text(4, 5))
    shorter.adopt(learned)
    assert torch.equal(shorter.table, learned.table[:5])


# ---- one-hot ----

PLACES = [(text(6), Positions.line(8)), (text(6), Positions.line(3, 4, 8)), (image(6), Positions.grid(3, 4))]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("spec, pos", PLACES, ids=["text", "later text", "image"])
def test_onehot_is_a_linear_map_of_unit_vectors(bias: bool, spec: Spec, pos: Positions) -> None:
    onehot = OneHot(spec, bias=bias)
    count = math.prod(spec.extent)
    index = pos.axis(0) if pos.axes == 1 else pos.axis(0) * 4 + pos.axis(1)
    close(onehot.embed(pos), onehot.linear(F.one_hot(index, count).float()))
    assert (onehot.linear.bias is not None) == bias


@pytest.mark.parametrize("spec, pos", PLACES, ids=["text", "later text", "image"])
def test_onehot_is_a_learned_table_with_the_identity_in_front(spec: Spec, pos: Positions) -> None:
    onehot, learned = OneHot(spec), Learned(spec)
    with torch.no_grad():
        rows = onehot.linear(torch.eye(math.prod(spec.extent)))
        learned.table.copy_(rows.view_as(learned.table))
    close(onehot.embed(pos), learned.embed(pos))


def test_onehot_keeps_its_cells_on_a_smaller_grid() -> None:
    onehot = OneHot(image(6))
    small, whole = onehot.embed(Positions.grid(2, 3)).view(2, 3, 6), onehot.embed(Positions.grid(3, 4)).view(3, 4, 6)
    assert torch.equal(small, whole[:2, :3])


def test_onehot_starts_as_a_linear_layer() -> None:
    """U(-1/sqrt(N), 1/sqrt(N)) of N positions: not the N(0, .02^2) of a table."""
    torch.manual_seed(3)
    layer = nn.Linear(64, 32)
    onehot = OneHot(Spec(32, 1, (8, 8), False))
    torch.manual_seed(3)
    onehot.reset_parameters()
    assert torch.equal(onehot.linear.weight, layer.weight) and torch.equal(onehot.linear.bias, layer.bias)
    assert 0.124 < onehot.linear.weight.detach().abs().max() < 0.125


def test_onehot_adopts_the_positions_that_both_have() -> None:
    onehot, smaller = OneHot(image(6)), OneHot(image(6, 2, 3))
    smaller.adopt(onehot)
    here, there = smaller.embed(Positions.grid(2, 3)).view(2, 3, 6), onehot.embed(Positions.grid(3, 4)).view(3, 4, 6)
    assert torch.equal(here, there[:2, :3])
    with pytest.raises(NotDefined, match=r"3x4.*3x5"):
        OneHot(image(6, 3, 5)).adopt(onehot)


# ---- learned Fourier features ----


def fourier(rows: int = 3, columns: int = 4, **keys: Any) -> Fourier2d:
    """With the parameters of the reference."""
    encoding = Fourier2d(image(4, rows, columns), features=6, hidden=5, **keys)
    number = {name.removeprefix("fourier_"): array.float() for name, array in REFERENCE.items() if "fourier" in name}
    put(encoding.frequency, number["frequency"])
    put_linear(encoding.hidden, number["hidden_weight"], number["hidden_bias"])
    put_linear(encoding.out, number["out_weight"], number["out_bias"])
    return encoding


def test_fourier2d_is_algorithm_1() -> None:
    close(fourier().embed(Positions.grid(3, 4)), REFERENCE["fourier_vectors"])


@pytest.mark.parametrize("gamma", [1.0, 3.0, 10.0])
def test_fourier2d_starts_with_a_gaussian_kernel(gamma: float) -> None:
    """r_p . r_q is about exp(-|p - q|^2 / (2 gamma^2)) / 2 for many features: gamma is a length in patches."""
    encoding = Fourier2d(image(4), features=200_000, gamma=gamma)
    with torch.no_grad():
        r = encoding.fourier(Positions.grid(3, 4)).double()
    y, x = Positions.grid(3, 4).coordinates.double().T
    squares = (y[:, None] - y).square() + (x[:, None] - x).square()
    assert (r @ r.T - (-squares / (2 * gamma**2)).exp() / 2).abs().max() < 0.01


@pytest.mark.parametrize("coordinates, unit", [("trained", (3, 4)), ("image", (6, 5))])
def test_fourier2d_coordinates(coordinates: Literal["trained", "image"], unit: tuple[int, int]) -> None:
    """Divided by the side of the trained grid or of the one at hand; axis by axis."""
    divided, plain = fourier(coordinates=coordinates), fourier()
    with torch.no_grad():
        plain.frequency /= torch.tensor(unit)
    close(divided.embed(Positions.grid(6, 5)), plain.embed(Positions.grid(6, 5)))


def test_fourier2d_adopts_what_a_patch_meant() -> None:
    """Another trained grid is another unit: the frequencies follow, the vectors stay."""
    small, large = fourier(coordinates="trained"), fourier(6, 5, coordinates="trained")
    large.adopt(small)
    assert not torch.equal(large.frequency, small.frequency)
    close(large.embed(Positions.grid(6, 5)), small.embed(Positions.grid(6, 5)))


@pytest.mark.parametrize("keys", [{"features": 7}, {"features": 0}, {"hidden": 0}, {"gamma": 0.0}], ids=str)
def test_fourier2d_refuses(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(keys))):
        Fourier2d(image(4), **keys)


@pytest.mark.parametrize(
    "build, names",
    [
        (lambda: Sine(text(5)), "dim=5"),
        (lambda: LearnedSine(text(5)), "dim=5"),
        (lambda: Sine2d(image(6)), "dim=6"),
        (lambda: Sine2dDETR(image(6)), "dim=6"),
        (lambda: Learned2d(image(5)), "dim=5"),
    ],
)
def test_widths_that_do_not_divide_are_refused(build: Any, names: str) -> None:
    with pytest.raises(ValueError, match=names):
        build()


def test_summed_tables_take_any_width() -> None:
    assert Learned2d(image(5), combine="sum").embed(Positions.grid(3, 4)).shape == (12, 5)
