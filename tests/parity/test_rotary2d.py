"""Rotations on grids: timm's modules, reference arrays, and a plain double loop beside each clever form."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from poslab.models import ViT
from poslab.positions import Positions, Spec
from poslab.positions.liere import LieRE, turn_blocks
from poslab.positions.rope2d import RoPE2d
from poslab.positions.rope2d_dinov3 import RoPE2dDINOv3
from poslab.positions.rope2d_golden import RoPE2dGolden
from poslab.positions.rope2d_mixed import RoPE2dMixed
from poslab.positions.rotary import Rotary
from poslab.positions.scaling import DynamicNTK, Linear, Llama3, Scaling, YaRN

from ..laws import build
from ..laws.build import IMAGE
from ..laws.test_invariance import check_shift
from ..reference import arrays, legend
from .test_arrays import close

REFERENCE = arrays("rotary2d")
GRID = Positions.grid(3, 4)
GRIDS = [(3, 4), (6, 5), (14, 14), (1, 7)]
SPEC = Spec(dim=16, heads=1, extent=(3, 4), causal=False)

Order = Literal["xy", "yx"]
Normalize = Literal["separate", "max", "min"]


def with_grid(spec: Spec, *grid: int) -> Spec:
    return Spec(spec.dim, spec.heads, grid, False)


def test_every_array_has_a_legend() -> None:
    names = legend("rotary2d")
    assert all(array in names or f"dinov3_*_{array.split('_')[-1]}" in names for array in REFERENCE)


# ---- reference arrays ----


def test_arrays_of_the_axial_presets() -> None:
    eva, pe = (build.factory(word)(SPEC) for word in ("rope2d_eva", "rope2d_pe"))
    assert isinstance(eva, RoPE2d) and isinstance(pe, RoPE2d)
    close(eva.angles(GRID), REFERENCE["eva_16_angles"])
    close(pe.angles(GRID), REFERENCE["pe_angles"])


@pytest.mark.parametrize("normalize", ["separate", "max", "min"])
def test_arrays_of_dinov3(normalize: Normalize) -> None:
    close(RoPE2dDINOv3(SPEC, normalize=normalize).eval().angles(GRID), REFERENCE[f"dinov3_{normalize}_angles"])


def test_dinov3_turns_halves() -> None:
    v = torch.arange(1, 17).mul(0.1).expand(1, 1, 12, 16)
    turned, _, _ = RoPE2dDINOv3(SPEC).eval().rotate(v, v, v, GRID)
    close(turned[0, 0], REFERENCE["dinov3_turned"])


def test_arrays_of_the_plastic_directions() -> None:
    """Lengths from 1 to 100, which a trained grid of 64x64 admits."""
    golden = RoPE2dGolden(Spec(32, 2, (64, 64), False), min_frequency=1.0, max_frequency=100.0, directions="plastic")
    # ten steps of a fixed point, as in the author's code, are 4e-8 off the plastic number: a millionth of a direction
    gap = (golden.frequencies().permute(1, 2, 0) - REFERENCE["plastic_frequencies"]).abs().max()
    assert gap < 2e-4, gap


# ---- timm ----


def same_turn(ours: Rotary, theirs: Tensor, pos: Positions) -> None:
    """cos and sin of ours against theirs (..., T, sin of all channels then cos of all channels)."""
    sin, cos = theirs.chunk(2, dim=-1)
    channels = slice(None, None, 2) if ours.pairs == "adj" else slice(0, sin.shape[-1] // 2)
    for here, there in zip(ours.cos_sin(pos), (cos, sin), strict=True):
        torch.testing.assert_close(here, there[..., channels], rtol=0, atol=5e-6)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("indexing, order", [("xy", "xy"), ("ij", "yx")])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("first, reference", [(0, None), (1, None), (0, 16), (1, 5)])
@pytest.mark.parametrize("theta", [100.0, 10_000.0])
def test_timm_axial(
    grid: tuple[int, int], indexing: str, order: Order, half: bool, first: int, reference: int | None, theta: float
) -> None:
    layers = pytest.importorskip("timm.layers")
    theirs = layers.RotaryEmbeddingCat(
        16, in_pixels=False, temperature=theta, grid_indexing=indexing, rotate_half=half, grid_offset=float(first),
        ref_feat_shape=reference and (reference, reference),
    ).get_embed(grid)  # fmt: skip
    ours = RoPE2d(SPEC, theta, order, "half" if half else "adj", first, reference)
    same_turn(ours, theirs, Positions.grid(*grid))


@pytest.mark.parametrize("grid", GRIDS)
def test_timm_mixed(grid: tuple[int, int]) -> None:
    layers = pytest.importorskip("timm.layers")
    theirs = layers.RotaryEmbeddingMixed(24, depth=2, num_heads=3)
    table = theirs.get_embed(grid).detach()
    for layer in range(2):
        ours = RoPE2dMixed(Spec(24, 3, (3, 4), False, layer, 2))
        with torch.no_grad():
            ours.frequency.copy_(theirs.freqs[:, layer])
            same_turn(ours, table[layer], Positions.grid(*grid))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("indexing, order", [("xy", "xy"), ("ij", "yx")])
@pytest.mark.parametrize("normalize", ["separate", "max", "min"])
@pytest.mark.parametrize("theta", [100.0, 30.0])
def test_timm_dinov3(grid: tuple[int, int], indexing: str, order: Order, normalize: Normalize, theta: float) -> None:
    layers = pytest.importorskip("timm.layers")
    theirs = layers.RotaryEmbeddingDinoV3(
        16, temperature=theta, normalize_coords=normalize, grid_indexing=indexing
    ).get_embed(grid)
    same_turn(RoPE2dDINOv3(SPEC, theta, order, normalize).eval(), theirs, Positions.grid(*grid))


@pytest.mark.parametrize("shift", [None, 0.3])
@pytest.mark.parametrize("jitter", [None, 1.5])
@pytest.mark.parametrize("rescale", [None, 2.0])
def test_timm_dinov3_in_training(shift: float | None, jitter: float | None, rescale: float | None) -> None:
    """From the same seed the same disturbance: kind, range and order of the draws."""
    layers = pytest.importorskip("timm.layers")
    theirs = layers.RotaryEmbeddingDinoV3(16, shift_coords=shift, jitter_coords=jitter, rescale_coords=rescale).train()
    ours = RoPE2dDINOv3(SPEC, shift=shift, jitter=jitter, rescale=rescale).train()
    for seed in range(3):
        torch.manual_seed(seed)
        table = theirs.get_embed((3, 4))
        torch.manual_seed(seed)
        same_turn(ours, table, Positions.grid(3, 4))


@pytest.mark.parametrize("word", ["rope2d_eva", "rope2d_pe", "rope2d_dinov3"])
def test_timm_models(word: str) -> None:
    """Logits with a class token, which must lie at (0, 0), at several grids."""
    pytest.importorskip("timm")
    from .test_image_models import compare, copy_eva, eva, vit

    options: dict[str, Any] = {
        "rope2d_eva": {"ref_feat_shape": 16},
        "rope2d_pe": {"rope_grid_indexing": "xy", "rope_grid_offset": 1.0},
        "rope2d_dinov3": {"rope_type": "dinov3", "rope_temperature": 100.0, "rope_rotate_half": True},
    }[word]
    ours = vit(pos=build.factory(word))
    theirs = eva(**options)
    copy_eva(ours, theirs)
    compare(ours, theirs)


# ---- axial presets ----


def test_eva_has_one_reach() -> None:
    """At 16 patches a side it is the plain grid, bit for bit; at twice as many, odd ones lie between those."""
    eva = build.factory("rope2d_eva")(SPEC)
    assert isinstance(eva, RoPE2d)
    plain = RoPE2d(SPEC, 10_000.0, "yx")
    assert torch.equal(eva.angles(Positions.grid(16, 16)), plain.angles(Positions.grid(16, 16)))
    fine, coarse = (eva.angles(Positions.grid(n, n)).unflatten(0, (n, n)) for n in (32, 16))
    close(fine[::2, ::2], coarse)
    assert (fine[1, 1] > coarse[0, 0]).all() and (fine[1, 1] < coarse[1, 1]).all()


@pytest.mark.parametrize("rule", [Linear(), DynamicNTK(), YaRN(), Llama3()], ids=lambda rule: type(rule).__name__)
def test_eva_is_not_scaled_twice(rule: Scaling) -> None:
    """A rule that asks how far the input reaches hears the reference grid, which no input leaves."""
    for reference in (16, None):
        ruled, free = (
            RoPE2d(SPEC, 10_000.0, "yx", reference=reference, scaling=scaling).cos_sin(Positions.grid(48, 40))
            for scaling in (rule, None)
        )
        assert all(torch.equal(a, b) for a, b in zip(ruled, free, strict=True)) == (reference == 16)


def test_eva_scaled_by_a_factor() -> None:
    """An explicit factor divides: within a grid of 16 by 2 is within a grid of 8."""
    far = Positions.grid(48, 40)
    close(RoPE2d(SPEC, reference=16, scaling=Linear(2.0)).angles(far), RoPE2d(SPEC, reference=8).angles(far))


def test_a_reference_grid_has_patches() -> None:
    with pytest.raises(ValueError, match="reference=0 is a number of patches"):
        RoPE2d(SPEC, reference=0)


# ---- dinov3 ----


def test_dinov3_by_hand() -> None:
    """Patch (0, 1) of 2x4: row at -.5, column at -.25; periods 1 and 10."""
    angle = RoPE2dDINOv3(Spec(8, 1, (2, 4), False)).eval().angles(Positions.grid(2, 4))[1]
    close(angle, 2 * math.pi * torch.tensor([-0.5, -0.05, -0.25, -0.025]))


def test_dinov3_draws_once_a_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """All layers of a pass see one box, the next pass another one; evaluation none."""
    boxes: list[Tensor] = []
    original = RoPE2dDINOv3.disturbed
    monkeypatch.setattr(RoPE2dDINOv3, "disturbed", lambda self, box: boxes.append(original(self, box)) or boxes[-1])
    model = build.model("rope2d_dinov3", IMAGE, depth=3)
    images = build.inputs(IMAGE)
    for mode in (True, True, False, False):
        model.train(mode)(images)
    assert len(boxes) == 4
    assert not torch.equal(boxes[0], boxes[1]) and not torch.equal(boxes[0], boxes[2])
    assert torch.equal(boxes[2], boxes[3])


def test_dinov3_stays_in_range() -> None:
    """rescale: factors within [1/2, 2], even in the logarithm, one for both axes; jitter: one for each axis."""
    pos = Positions.grid(3, 4)
    for key, value in {"rescale": 2.0, "jitter": 1.5}.items():
        rope = RoPE2dDINOv3(SPEC, **{"rescale": None, key: value}).train()
        box = rope.box(pos)
        drawn = torch.stack([rope.disturbed(box)[:, 0] / box[:, 0] for _ in range(4000)]).log() / math.log(value)
        assert drawn.abs().max() <= 1 + 1e-6 and drawn.abs().max() > 0.99
        close(drawn.mean(0), torch.zeros(2), atol=0.05)
        close(drawn.std(0), torch.full((2,), 3**-0.5), atol=0.02)  # of U(-1, 1)
        together = torch.equal(drawn[:, 0], drawn[:, 1]) or (drawn[:, 0] - drawn[:, 1]).abs().max() < 1e-6
        assert together == (key == "rescale")


@pytest.mark.parametrize("key, value", [("jitter", 0.5), ("rescale", 0.9), ("shift", -0.1)])
def test_dinov3_refuses(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{key}={value} is"):
        RoPE2dDINOv3(SPEC, **{key: value})


# ---- golden ----


def test_golden_is_a_double_loop() -> None:
    """The author's formula for images, on his coordinates stretched by n/(n - 1)."""
    heads, pairs, n = 3, 4, 6
    golden = RoPE2dGolden(Spec(heads * pairs * 2, heads, (n, n), False), min_frequency=0.2, max_frequency=5.0)
    angles = golden.angles(Positions.grid(n, n)).unflatten(1, (n, n))
    ends = torch.linspace(-1, 1, n, dtype=torch.float64)
    expected = torch.empty_like(angles)
    for head in range(heads):
        for pair in range(pairs):
            direction = (head * pairs + pair) * math.pi * (math.sqrt(5) - 1) / 2
            length = 0.2 * (5.0 / 0.2) ** (pair / (pairs - 1)) * (n - 1) / n
            for y in range(n):
                for x in range(n):
                    along = math.cos(direction) * ends[x] + math.sin(direction) * ends[y]
                    expected[head, y, x, pair] = length * along
    close(angles, expected)


@pytest.mark.parametrize("normalize, width, height", [("area", 2**0.5, 0.5**0.5), ("separate", 1.0, 1.0)])
def test_golden_boxes(normalize: Any, width: float, height: float) -> None:
    """2x4 patches, the outermost half a patch inside a box of area 4 that is as wide as the image or square."""
    x, y = RoPE2dGolden(Spec(16, 1, (2, 4), False), normalize=normalize).place(Positions.grid(2, 4))
    close(x.unflatten(0, (2, 4))[1] / width, torch.tensor([-0.75, -0.25, 0.25, 0.75]))
    close(y.unflatten(0, (2, 4))[:, 1] / height, torch.tensor([-0.5, 0.5]))


def test_golden_still_pairs() -> None:
    """A quarter of 8 pairs does not turn at all; the others cover the whole range of lengths."""
    lengths = RoPE2dGolden(Spec(16, 1, (14, 14), False), zero=0.25).frequencies().norm(dim=0)[0]
    assert (lengths[:2] == 0).all()
    close(lengths[[2, 7]], torch.tensor([0.2, 7 * math.pi]))
    ratio = lengths[3:] / lengths[2:-1]
    close(ratio, ratio[:1].expand(5))


@pytest.mark.parametrize("directions", ["golden", "plastic"])
@pytest.mark.parametrize("normalize", ["area", "separate"])
@pytest.mark.parametrize("grid", [(14, 14), (3, 8)])
def test_golden_never_skips_a_turn(directions: Any, normalize: Any, grid: tuple[int, int]) -> None:
    """On the trained grid no pair turns by more than pi from a patch to the next, along rows and columns."""
    golden = RoPE2dGolden(Spec(1024, 32, grid, False), directions=directions, normalize=normalize)
    angles = golden.angles(Positions.grid(*grid)).unflatten(1, grid)
    steps = [angles.diff(dim=axis).abs().max() for axis in (1, 2)]
    assert 0.98 * math.pi < max(steps) <= math.pi + 1e-9  # some head looks along an axis
    close(golden.frequencies().norm(dim=0).max(), torch.tensor(golden.max_frequency))


def test_golden_bound_on_14x14() -> None:
    spec = Spec(64, 1, (14, 14), False)
    close(torch.tensor(RoPE2dGolden(spec).max_frequency), torch.tensor(7 * math.pi))
    RoPE2dGolden(spec, max_frequency=20.0)
    with pytest.raises(ValueError, match=r"<= 21\.991, which is a turn by pi .* 14x14, not 0\.2 and 22\.0"):
        RoPE2dGolden(spec, max_frequency=22.0)
    with pytest.raises(ValueError, match="leaves none to turn"):
        RoPE2dGolden(spec, zero=1.0)


@pytest.mark.parametrize("directions", ["golden", "plastic"])
def test_golden_directions_are_spread(directions: Any) -> None:
    """Up to sign: no gap of the half circle between 64 directions is wider than 4 times an even one."""
    golden = RoPE2dGolden(Spec(128, 1, (14, 14), False), directions=directions)
    x, y = golden.frequencies()
    angle = torch.atan2(y, x).flatten().remainder(math.pi).sort().values
    gaps = torch.cat((angle.diff(), angle[:1] + math.pi - angle[-1:]))
    assert gaps.max() < 4 * math.pi / 64


# ---- LieRE ----


def liere(dim: int, heads: int, grid: tuple[int, int] = (3, 4), **keys: Any) -> LieRE:
    return LieRE(Spec(dim, heads, grid, False), **keys)


def dense(encoding: LieRE, head: int, y: float, x: float) -> Tensor:
    """(D, D) rotation of a head at a place, from its definition, in float64."""
    width, n = encoding.spec.head_dim, encoding.generator_dim
    own = encoding.upper[:, head if encoding.upper.shape[1] > 1 else 0].detach().double()
    generator = torch.zeros(width, width, dtype=torch.float64)
    for block in range(width // n):
        entry = 0
        for i in range(n):
            for j in range(i + 1, n):
                value = y * own[0, block, entry] + x * own[1, block, entry]
                generator[block * n + i, block * n + j], generator[block * n + j, block * n + i] = value, -value
                entry += 1
    return torch.linalg.matrix_exp(generator)


@pytest.mark.parametrize("width, generator_dim", [(64, 64), (64, 8), (16, 2), (9, 3)])
@pytest.mark.parametrize("per_head", [True, False])
def test_liere_is_a_dense_exponential(width: int, generator_dim: int, per_head: bool) -> None:
    encoding = liere(2 * width, 2, generator_dim=generator_dim, per_head=per_head)
    pos = Positions.grid(4, 5)  # beyond the trained grid
    q, k, v = (torch.randn(3, 2, 20, width) for _ in range(3))
    turned_q, turned_k, turned_v = encoding.rotate(q, k, v, pos)
    assert turned_v is v
    for head in range(2):
        for token, (y, x) in enumerate(pos.coordinates.tolist()):
            r = dense(encoding, head, y / 3, x / 4).float()
            for before, after in ((q, turned_q), (k, turned_k)):
                torch.testing.assert_close(after[:, head, token], before[:, head, token] @ r.T, rtol=0, atol=5e-4)


def test_liere_gradient_is_that_of_the_dense_exponential() -> None:
    """In the skew-symmetric entries, by finite differences of the definition."""
    encoding = liere(8, 1, generator_dim=4)
    pos, q, weight = Positions.grid(2, 2), torch.randn(1, 1, 4, 8), torch.randn(4, 8)

    def value() -> float:
        places = [
            dense(encoding, 0, y / 3, x / 4) @ q[0, 0, t].double() for t, (y, x) in enumerate(pos.coordinates.tolist())
        ]
        return float((torch.stack(places) * weight).sum())

    (encoding.rotate(q, q, q, pos)[0][0, 0] * weight).sum().backward()
    assert encoding.upper.grad is not None
    step = 1e-3
    for index in [(0, 0, 0, 0), (1, 0, 0, 3), (0, 0, 1, 5), (1, 0, 1, 1)]:
        with torch.no_grad():
            encoding.upper[index] += step
            above = value()
            encoding.upper[index] -= 2 * step
            below = value()
            encoding.upper[index] += step
        close(encoding.upper.grad[index], torch.tensor((above - below) / (2 * step)), atol=2e-3)


@pytest.mark.parametrize("per_head", [True, False])
def test_liere_pairs_need_no_series(per_head: bool) -> None:
    """Blocks of 2 turn by -(y a_y + x a_x), which is what the exponential gives."""
    encoding = liere(16, 2, generator_dim=2, per_head=per_head)
    pos, q = Positions.grid(3, 4), torch.randn(2, 2, 12, 8)
    close(encoding.rotate(q, q, q, pos)[0], turn_blocks(q, encoding.rotations(pos)), atol=2e-5)


@pytest.mark.parametrize("generator_dim, relative", [(2, True), (4, False), (8, False)])
def test_liere_is_relative_where_generators_commute(generator_dim: int, relative: bool) -> None:
    encoding = build.encoding(build.factory("liere", generator_dim=generator_dim), IMAGE)
    assert encoding.shift_invariant == relative
    check_shift(encoding, IMAGE)


def test_liere_spacing_does_not_follow_the_size() -> None:
    encoding = liere(16, 2)
    with torch.no_grad():
        small, large = (encoding.rotations(Positions.grid(*grid)).unflatten(1, grid) for grid in ((3, 4), (6, 9)))
    close(large[:, :3, :4], small)


@pytest.mark.parametrize("factor", [1, 2, 8])
def test_liere_rotations_stay_rotations(factor: int) -> None:
    """R^T R = 1 to float32 rounding, far past the trained grid too."""
    encoding = liere(64, 1, (7, 7), generator_dim=64)
    with torch.no_grad():
        r = encoding.rotations(Positions(torch.tensor([[7 * factor - 1, 7 * factor - 1]]), (7 * factor, 7 * factor)))
    gap = (r.mT @ r - torch.eye(64)).abs().max()
    assert gap < 1e-4 * factor, gap


def test_liere_starts_uniformly() -> None:
    """Above the diagonal U(0, 2 pi); only those entries are stored."""
    encoding = liere(64 * 4, 4, generator_dim=64)
    assert encoding.upper.shape == (2, 4, 1, 64 * 63 // 2)
    upper = encoding.upper.detach()
    assert upper.min() >= 0 and upper.max() <= 2 * math.pi
    close(upper.mean(), torch.tensor(math.pi), atol=0.05)
    close(upper.std(), torch.tensor(2 * math.pi / 12**0.5), atol=0.05)


def test_liere_layers_have_their_own() -> None:
    """Each layer's generators get a gradient and are read by that layer: moving one moves the output."""
    torch.manual_seed(0)
    model = ViT(
        image_size=12, patch_size=4, channels=1, classes=3, pos=build.factory("liere"), dim=16, heads=2, depth=3
    )  # fmt: skip
    nn.init.normal_(model.head.weight)
    images = torch.randn(2, 1, 12, 12)
    before = model(images)
    before.square().sum().backward()
    assert len(model.trunk.position) == 3
    for layer in range(3):
        gradient = model.trunk.position[layer].upper.grad
        assert isinstance(gradient, Tensor) and (gradient != 0).all()
        moved = copy.deepcopy(model)
        with torch.no_grad():
            moved.trunk.position[layer].upper.add_(0.5)
        assert (moved(images) - before).abs().max() > 1e-4


def test_liere_one_for_all_layers() -> None:
    model = build.model(build.factory("liere", per_layer=False), IMAGE, depth=3)
    assert len(model.trunk.position) == 1


@pytest.mark.parametrize("generator_dim", [0, 1, 3, 16])
def test_liere_refuses(generator_dim: int) -> None:
    with pytest.raises(ValueError, match="use one of 2, 4, 8"):
        liere(16, 2, generator_dim=generator_dim)
