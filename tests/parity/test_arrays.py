"""The encodings against reference arrays, and a plain double loop beside each clever form."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from torch import Tensor

from poslab.positions import PositionEncoding, Positions, Spec
from poslab.positions.alibi import ALiBi, ALiBi2d
from poslab.positions.learned import Learned
from poslab.positions.ops import frequencies, slopes
from poslab.positions.rope import RoPE
from poslab.positions.rope2d import RoPE2d
from poslab.positions.rope2d_mixed import RoPE2dMixed
from poslab.positions.shaw import Shaw
from poslab.positions.sine import Sine
from poslab.positions.sine2d import Layout, Sine2d
from poslab.positions.t5 import T5

from ..reference import arrays, legend

REFERENCE = arrays()
GRID = Positions.grid(3, 4)
TEXT = Spec(dim=8, heads=2, extent=(6,), causal=False)  # the heads of the reference scores are 4 wide


def close(here: Tensor, there: Tensor, atol: float = 2e-6) -> None:
    torch.testing.assert_close(here.detach().double(), there.double(), rtol=1e-5, atol=atol)


def scores(encoding: PositionEncoding) -> Tensor:
    """(H, T, T) logits of the reference queries and keys."""
    q, k = REFERENCE["q"].float()[None], REFERENCE["k"].float()[None]
    pos = Positions.line(6)
    q, k, _ = encoding.rotate(q, k, k, pos)
    logits = q @ k.mT * encoding.spec.head_dim**-0.5
    for term in (encoding.bias(pos, pos), encoding.content_bias(q, k, pos, pos)):
        logits = logits if term is None else logits + term
    return logits[0]


def test_every_array_has_a_legend() -> None:
    names = [name.strip() for key in legend() for name in key.split(",")]
    for array in REFERENCE:
        assert any(array == name or (name[-1] == "*" and array.startswith(name[:-1])) for name in names), array


# ---- text ----


@pytest.mark.parametrize("pairs", ["half", "adj"])
def test_rope_scores(pairs: Literal["half", "adj"]) -> None:
    close(scores(RoPE(TEXT, pairs=pairs)), REFERENCE[f"rope_scores_{pairs}"])


@pytest.mark.parametrize("width", [32, 64, 128])
def test_rope_frequencies(width: int) -> None:
    torch.testing.assert_close(frequencies(width, 1e4), REFERENCE[f"rope_frequencies_{width}"], rtol=1e-14, atol=0)


def test_rope_angles_up_to_65535() -> None:
    """To float32 rounding at every position: angles are float64, only cos and sin are float32."""
    rope = RoPE(Spec(64, 1, (64,), True))
    positions = Positions(REFERENCE["rope_positions"][:, None], (65536,))
    cos, sin = rope.cos_sin(positions)
    assert (cos - REFERENCE["rope_cos"]).abs().max() < 6e-8
    assert (sin - REFERENCE["rope_sin"]).abs().max() < 6e-8


@pytest.mark.parametrize("pairs, other", [("half", 2), ("adj", 1)])
def test_rope_turns_forward(pairs: Literal["half", "adj"], other: int) -> None:
    """The first unit vector at position 1 becomes (cos 1, + sin 1)."""
    unit = torch.tensor([1.0, 0, 0, 0]).view(1, 1, 1, 4)
    turned, _, _ = RoPE(Spec(4, 1, (8,), True), pairs=pairs).rotate(unit, unit, unit, Positions.line(1, 1))
    expected = torch.zeros(4)
    expected[0], expected[other] = math.cos(1), math.sin(1)
    close(turned.flatten(), expected)


def test_half_is_a_permutation_of_adj() -> None:
    q = torch.randn(1, 2, 6, 4)
    order, pos = [0, 2, 1, 3], Positions.line(6)
    half, _, _ = RoPE(TEXT, pairs="half").rotate(q, q, q, pos)
    adj, _, _ = RoPE(TEXT, pairs="adj").rotate(q[..., order], q, q, pos)
    close(half[..., order], adj)


def test_partial_rope_leaves_the_rest() -> None:
    """Frequencies follow from the turned width; other channels are bit-exact."""
    spec, pos = Spec(16, 1, (6,), True), Positions.line(6)
    q = torch.randn(1, 1, 6, 16)
    part, _, _ = RoPE(spec, fraction=0.25).rotate(q, q, q, pos)
    assert torch.equal(part[..., 4:], q[..., 4:])
    narrow = q[..., :4]
    close(part[..., :4], RoPE(Spec(4, 1, (6,), True)).rotate(narrow, narrow, narrow, pos)[0])


@pytest.mark.parametrize("heads", [int(name[-2:]) for name in REFERENCE if name.startswith("slopes_")])
def test_alibi_slopes(heads: int) -> None:
    close(slopes(heads), REFERENCE[f"slopes_{heads:02}"], atol=0)


def test_alibi_scores() -> None:
    close(scores(ALiBi(TEXT)), REFERENCE["alibi_scores"])


def test_alibi_rewards_near_keys() -> None:
    bias = ALiBi(Spec(8, 8, (16,), True)).bias(Positions.line(1, 15), Positions.line(16))[0, 0]
    assert bias[-8:].tolist() == [-3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0]


def test_shaw_scores() -> None:
    shaw = Shaw(TEXT, clip=2)
    with torch.no_grad():
        shaw.table.copy_(REFERENCE["shaw_table"])
    close(scores(shaw), REFERENCE["shaw_scores"])


@pytest.mark.parametrize("queries, start", [(6, 0), (2, 4)])
def test_shaw_is_a_double_loop(queries: int, start: int) -> None:
    shaw = Shaw(TEXT, clip=2, init_std=1.0)
    q, k = torch.randn(2, 2, queries, 4), torch.randn(2, 2, 6, 4)
    expected = torch.empty(2, 2, queries, 6)
    for i in range(queries):
        for j in range(6):
            row = min(max(j - (start + i), -2), 2) + 2
            expected[:, :, i, j] = q[:, :, i] @ shaw.table[row].detach() / 2
    close(shaw.content_bias(q, k, Positions.line(queries, start), Positions.line(6)), expected)


T5_KEYS = [name for name in REFERENCE if name.startswith("t5_") and name != "t5_offset"]


@pytest.mark.parametrize("key", T5_KEYS)
def test_t5_buckets(key: str) -> None:
    _, buckets, distance, direction = key.split("_")
    t5 = T5(Spec(8, 2, (1024,), direction == "causal"), buckets=int(buckets), max_distance=int(distance))
    n, expected = REFERENCE["t5_offset"], REFERENCE[key]
    assert torch.equal(t5.bucket(n), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(t5.bucket(n), expected)


def test_t5_numbers_of_the_paper() -> None:
    causal = T5(Spec(8, 2, (256,), True))
    assert causal.bucket(torch.tensor([16, 17, 18, 31, 64, 113, 500])).tolist() == [16, 16, 16, 21, 26, 31, 31]
    both = T5(Spec(8, 2, (256,), False))
    assert both.bucket(torch.tensor([-1, 1])).tolist() == [17, 1]  # a key ahead has n = -1


def test_t5_decoder_does_not_share_the_encoder_buckets() -> None:
    """64 tokens: 1,540 of the 2,080 causal cells differ between the two."""
    n = torch.arange(64)[:, None] - torch.arange(64)[None]
    causal, both = (T5(Spec(8, 2, (256,), kind)).bucket(n) for kind in (True, False))
    assert int((causal != both)[n >= 0].sum()) == 1540


def test_t5_bias_is_a_double_loop() -> None:
    t5 = T5(Spec(8, 2, (256,), True), table_scale=3.0)
    bias = t5.bias(Positions.line(20, 30), Positions.line(50)).detach()
    for i in range(20):
        for j in range(50):
            row = int(t5.bucket(torch.tensor([30 + i - j])))
            close(bias[:, i, j], 3 * t5.table[row])


def test_t5_warns_of_buckets_that_training_does_not_reach() -> None:
    with pytest.warns(UserWarning, match="max_distance=128 lies beyond the 64"):
        T5(Spec(8, 2, (64,), True))


@pytest.mark.parametrize("layout", ["interleaved", "concat"])
def test_sine(layout: Literal["interleaved", "concat"]) -> None:
    close(Sine(TEXT, layout=layout).embed(Positions.line(5)), REFERENCE[f"sine_{layout}"])


@pytest.mark.parametrize("endpoint, name", [(False, "sine_frequencies"), (True, "sine_frequencies_endpoint")])
def test_sine_frequencies(endpoint: bool, name: str) -> None:
    torch.testing.assert_close(frequencies(8, 1e4, endpoint), REFERENCE[name], rtol=1e-14, atol=0)


# ---- images, on a grid of 3 rows and 4 columns ----


def test_grid_is_row_major() -> None:
    assert GRID.axis(1)[:5].tolist() == [0, 1, 2, 3, 0] and GRID.axis(0)[:5].tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("layout", ["bigvision", "mae", "timm"])
def test_sine2d(layout: Layout) -> None:
    close(Sine2d(Spec(16, 2, (3, 4), False), layout=layout).embed(GRID), REFERENCE[f"sine2d_{layout}"])


def test_sine2d_moco_is_mae_with_the_halves_swapped() -> None:
    moco = Sine2d(Spec(16, 2, (3, 4), False), layout="moco").embed(GRID)
    close(torch.cat((moco[:, 8:], moco[:, :8]), 1), REFERENCE["sine2d_mae"])


@pytest.mark.parametrize("order, theta", [("xy", 100), ("yx", 10000)])
def test_rope2d_angles(order: Literal["xy", "yx"], theta: int) -> None:
    rope = RoPE2d(Spec(16, 1, (3, 4), False), theta=theta, order=order)
    close(rope.angles(GRID), REFERENCE[f"rope2d_{order}_{theta}_angles"])


def test_rope2d_turns_neighbours() -> None:
    v = torch.arange(1, 17).mul(0.1).expand(1, 1, 12, 16)
    turned, _, _ = RoPE2d(Spec(16, 1, (3, 4), False)).rotate(v, v, v, GRID)
    close(turned[0, 0], REFERENCE["rope2d_turned"])


def test_rope2d_by_hand() -> None:
    """Token 5 of a 2x3 grid lies at y=1, x=2; token 2 at y=0, x=2."""
    angle = RoPE2d(Spec(8, 1, (2, 3), False)).angles(Positions.grid(2, 3))
    close(angle[5], torch.tensor([2, 0.2, 1, 0.1]))
    close(angle[2], torch.tensor([2, 0.2, 0, 0]))


def test_rope2d_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heads that start at .3 and 1.1 rad."""
    drawn = torch.tensor([[0.3], [1.1]]) / (2 * math.pi)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: drawn)
    mixed = RoPE2dMixed(Spec(32, 2, (3, 4), False))
    close(mixed.frequency, REFERENCE["mixed_frequencies"])
    close(mixed.angles(GRID), REFERENCE["mixed_angles"])


def test_rope2d_mixed_has_the_published_number_of_parameters() -> None:
    mixed = RoPE2dMixed(Spec(384, 6, (14, 14), False))
    assert 12 * sum(parameter.numel() for parameter in mixed.parameters()) == 4608


@pytest.mark.parametrize("heads", [2, 6, 12])
def test_alibi2d(heads: int) -> None:
    close(ALiBi2d(Spec(12, heads, (3, 4), False)).bias(GRID, GRID), REFERENCE[f"alibi2d_{heads}_heads"])


@pytest.mark.parametrize("grid", [(3, 4), (6, 5), (2, 2)])
@pytest.mark.parametrize("antialias", [True, False])
def test_resampled_table(grid: tuple[int, int], antialias: bool) -> None:
    learned = Learned(Spec(1, 1, (4, 4), False), antialias=antialias)
    cell = torch.arange(16)
    with torch.no_grad():
        learned.table.copy_((cell % 5 + cell / 10).view(4, 4, 1))
    kind = "antialias" if antialias else "plain"
    expected = REFERENCE[f"resample_{grid[0]}x{grid[1]}_{kind}"]
    close(learned.embed(Positions.grid(*grid)).view(grid), expected, atol=1e-5)
