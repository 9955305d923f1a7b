"""xpos and pope: against reference arrays, plain loops and x-transformers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poslab.models import GPT, Cache, ViT
from poslab.positions import Frame, NotDefined, PositionEncoding, Positions, Spec
from poslab.positions.pope import PoPE
from poslab.positions.scaling import YaRN
from poslab.positions.xpos import XPos

from ..laws import build
from ..reference import arrays

SHARED, REFERENCE = arrays(), arrays("rotary1d")
TEXT = Spec(dim=8, heads=2, extent=(6,), causal=True)  # the heads of the reference scores are 4 wide


def close(here: Tensor, there: Tensor, rtol: float = 1e-5, atol: float = 2e-6) -> None:
    torch.testing.assert_close(here.detach().double(), there.detach().double(), rtol=rtol, atol=atol)


def scores(encoding: PositionEncoding, pos: Positions | None = None) -> Tensor:
    """(H, T, T) logits of the reference queries and keys, before the causal mask."""
    q, k = SHARED["q"].float()[None], SHARED["k"].float()[None]
    q, k, _ = encoding.rotate(q, k, k, pos or Positions.line(6))
    return (q @ k.mT)[0] * encoding.spec.head_dim**-0.5


def phased(spec: Spec, phase: Tensor, **keys: Any) -> PoPE:
    pope = PoPE(spec, **keys)
    with torch.no_grad():
        pope.phase.copy_(phase)
    return pope


# ---- xpos ----


@pytest.mark.parametrize("pairs", ["adj", "half"])
def test_xpos_scores(pairs: Any) -> None:
    close(scores(XPos(TEXT, pairs=pairs)), REFERENCE[f"xpos_scores_{pairs}"])


@pytest.mark.parametrize("pairs", ["adj", "half"])
@pytest.mark.parametrize("gamma, base", [(0.4, 512.0), (0.1, 30.0)])
def test_xpos_is_a_double_loop(pairs: Any, gamma: float, base: float) -> None:
    """Positions far apart, where fading shows, for every pair of an 8-wide head."""
    xpos = XPos(Spec(8, 1, (600,), True), gamma=gamma, scale_base=base, pairs=pairs)
    coordinates = torch.tensor([0, 3, 130, 131, 590])
    pos = Positions(coordinates[:, None], (600,))
    x, y = torch.randn(1, 1, 5, 8), torch.randn(1, 1, 5, 8)
    q, k, _ = xpos.rotate(x, y, y, pos)
    here = (q.double() @ k.double().mT)[0, 0]
    for i in range(5):
        for j in range(i + 1):
            n, total = int(coordinates[i] - coordinates[j]), 0.0
            for c in range(4):
                first, second = (2 * c, 2 * c + 1) if pairs == "adj" else (c, c + 4)
                a = complex(x[0, 0, i, first], x[0, 0, i, second])
                b = complex(y[0, 0, j, first], y[0, 0, j, second])
                angle, zeta = n * 1e4 ** (-c / 4), (2 * c / 8 + gamma) / (1 + gamma)
                turned = complex(math.cos(angle), math.sin(angle))
                total += zeta ** (n / base) * (a * turned * b.conjugate()).real
            close(here[i, j], torch.tensor(total), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length, base", [(7, 512), (1000, 512), (1000, 64)])
def test_xpos_of_x_transformers(length: int, base: int) -> None:
    peer = pytest.importorskip("x_transformers.x_transformers")
    q, k = torch.randn(1, 2, length, 16), torch.randn(1, 2, length, 16)
    angle, scale = peer.RotaryEmbedding(16, use_xpos=True, scale_base=base)(torch.arange(length))
    ours = XPos(Spec(32, 2, (length,), True), scale_base=base).rotate(q, k, k, Positions.line(length))
    expected = peer.apply_rotary_pos_emb(q, angle, scale), peer.apply_rotary_pos_emb(k, angle, scale**-1)
    for here, there in zip(ours, expected):  # their angles are float32
        close(here / there.norm(dim=-1, keepdim=True), there / there.norm(dim=-1, keepdim=True), atol=1e-4)


def test_xpos_scores_do_not_know_the_centre() -> None:
    """The extent moves the middle of the exponents, of q and k alike: scores stay."""
    near, far = (scores(XPos(TEXT, scale_base=16.0), Positions.line(6, extent=e)) for e in (6, 90))
    close(near, far, atol=1e-5)


def test_xpos_has_one_centre_a_generation() -> None:
    """Whatever pieces a cache is filled in, beyond the trained extent too."""
    gpt = build.model(build.factory("xpos", scale_base=8.0), build.TEXT)
    tokens, cache = build.inputs(build.TEXT, (60,)), Cache(build.DEPTH, 60)
    with torch.no_grad():
        pieces = [gpt(piece, cache) for piece in tokens.split([1, 20, 7, 2, 30], dim=1)]
        close(torch.cat(pieces, dim=1), gpt(tokens), rtol=1e-4, atol=1e-5)


def test_xpos_fades() -> None:
    """A pair that never turns: exactly zeta^(n/B)."""
    xpos = XPos(Spec(2, 1, (600,), True), theta=1.0, gamma=0.4, scale_base=512.0)
    one = torch.tensor([1.0, 0.0]).expand(1, 1, 600, 2)
    q, k, _ = xpos.rotate(one, one, one, Positions.line(600))
    n = torch.arange(600)
    # one pair: zeta_0 = .4 / 1.4; queries and keys both turn by n radians, so only cos n is left beside it
    close((q @ k.mT)[0, 0, -1].flip(0), (0.4 / 1.4) ** (n / 512) * n.cos(), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_xpos_at_32_times_256(dtype: torch.dtype) -> None:
    """Scores of past keys are right to rounding, attention and gradients are finite, masked keys included."""
    length, spec = 32 * 256, Spec(16, 2, (256,), True)
    xpos, pos = XPos(spec), Positions.line(length)
    q, k, v = (torch.randn(1, 2, length, 8, dtype=dtype, requires_grad=True) for _ in range(3))
    frame = Frame(xpos, pos)
    turned_q, turned_k, _ = frame.rotate(q, k, v)
    assert turned_q.isfinite().all() and turned_k.isfinite().all()
    # to the rounding of each pair of channels, of which one number may be next to nothing
    exact_q, exact_k, _ = (x[0] for x in xpos.rotate(q.double(), k.double(), v.double(), pos))
    pair = lambda x: x.detach().double().unflatten(-1, (-1, 2)).norm(dim=-1).repeat_interleave(2, dim=-1)  # noqa: E731
    for i in (0, 1, 255, 4000, length - 1):
        here = turned_q[0, :, i, None].double() * turned_k[0, :, : i + 1].double()
        there = exact_q[:, i, None] * exact_k[:, : i + 1]
        size = pair(exact_q[:, i, None]) * pair(exact_k[:, : i + 1])
        assert ((here - there).abs() <= 4 * torch.finfo(dtype).eps * size).all()
    y = frame.attend(turned_q, turned_k, v)
    y.float().square().sum().backward()
    assert y.isfinite().all() and all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))


@pytest.mark.parametrize("keys", [{}, {"scale_base": 64.0}, {"gamma": 0.05}])
def test_xpos_bound_is_where_float32_ends(keys: dict[str, float]) -> None:
    """At the bound the loudest masked score and the faintest past one are numbers; past it, a sentence with both."""
    xpos = XPos(Spec(8, 1, (256,), True), **keys)
    bound = xpos.bound(torch.float32)
    ends = Positions(torch.tensor([[0], [bound - 1]]), (bound,))
    one = 1000 * torch.ones(1, 1, 2, 8)
    q, k, _ = xpos.rotate(one, one, one, ends)
    products = q[0, 0][:, None] * k[0, 0][None]
    assert products.isfinite().all() and (products.abs() > torch.finfo(torch.float32).tiny).all()
    further = Positions(ends.coordinates, (bound + 1,))
    with pytest.raises(NotDefined, match=rf"{bound} positions.*float32.*reaches {bound + 1}.*scale_base"):
        xpos.rotate(one, one, one, further)
    assert xpos.bound(torch.bfloat16) in (bound, bound - 1)  # its largest number is a little smaller
    with pytest.raises(NotDefined, match="float16"):
        xpos.rotate(one.half(), one.half(), one.half(), ends)


def test_xpos_default_bound() -> None:
    """The number that the docstring names."""
    assert XPos(TEXT).bound(torch.float32) == 27195


def test_xpos_refuses_to_look_ahead() -> None:
    with pytest.raises(ValueError, match=r"xpos.*causal model.*pos=rope"):
        XPos(Spec(8, 2, (6,), False))
    with pytest.raises(ValueError, match="causal"):
        ViT(image_size=8, patch_size=4, channels=1, classes=2, dim=8, heads=2, depth=1, pos=XPos)


@pytest.mark.parametrize("keys", [{"gamma": 0.0}, {"scale_base": 0.0}, {"gamma": -1.0}])
def test_xpos_refuses_keys_without_a_meaning(keys: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="gamma > 0"):
        XPos(TEXT, **keys)


def test_xpos_takes_the_magnitude_of_a_rule() -> None:
    """yarn's .1 ln(s) + 1 on q and on k."""
    plain, ruled = XPos(TEXT), XPos(TEXT, scaling=YaRN(4.0, original=1000))
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    magnitude = 0.1 * math.log(4) + 1
    for here, there in zip(ruled.rotate(q, k, v, Positions.line(6))[:2], plain.rotate(q, k, v, Positions.line(6))):
        close(here.norm(dim=-1), magnitude * there.norm(dim=-1))


# ---- pope ----


def test_pope_scores() -> None:
    close(scores(phased(TEXT, REFERENCE["pope_phase"])) * 2, REFERENCE["pope_scores_unscaled"])


def test_pope_is_a_double_loop() -> None:
    """Queries in the middle of a text; phases outside of [-2 pi, 0] count as its ends."""
    phase = torch.randn(2, 4) * 4
    pope = phased(TEXT, phase, theta=50.0)
    q_pos, k_pos = Positions.line(3, 5), Positions.line(8)
    x, y = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 8, 4)
    q, _, _ = pope.rotate(x, x, x, q_pos)
    _, k, _ = pope.rotate(y, y, y, k_pos)
    here = (q @ k.mT)[0]
    for h in range(2):
        for i in range(3):
            for j in range(8):
                total = 0.0
                for c in range(4):
                    a, b = (math.log1p(math.exp(float(z))) for z in (x[0, h, i, c], y[0, h, j, c]))
                    shift = min(max(float(phase[h, c]), -2 * math.pi), 0)
                    total += a * b * math.cos((5 + i - j) * 50 ** (-c / 4) - shift)
                close(here[h, i, j], torch.tensor(total), atol=1e-5)


def test_pope_of_x_transformers() -> None:
    """Queries, keys, and the gradient of the phases, some of them out of their range."""
    peer = pytest.importorskip("x_transformers.x_transformers")
    polar = peer.PolarEmbedding(16, 2)
    nn.init.normal_(polar.learned_bias, -3, 4)
    pope = phased(Spec(32, 2, (40,), True), polar.learned_bias[:, 0])
    q, k = torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16)
    angle, bias = polar(torch.arange(40))
    theirs = peer.apply_polar_pos_emb(q, angle), peer.apply_polar_pos_emb(k, angle + bias)
    ours = pope.rotate(q, k, k, Positions.line(40))
    weights = torch.randn(40, 40)
    for here, there in zip(ours, theirs):
        close(here, there, atol=1e-5)
    for a, b in (ours[:2], theirs):
        ((a @ b.mT) * weights).sum().backward()
    gradient, phase = pope.phase.grad, pope.phase.detach()
    inside = (phase < 0) & (phase > -2 * math.pi)
    assert gradient is not None and inside.any() and not inside.all()
    close(gradient[inside], polar.learned_bias.grad[:, 0][inside], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("prefix", [1, 3])
def test_pope_prefix_rows(prefix: int) -> None:
    """Lengths at angle zero, without the phase: [softplus(x), 0]; their values stay."""
    spec = Spec(8, 2, (6,), False)
    pope, pos = phased(spec, torch.full((2, 4), -1.0)), Positions.line(6)
    old = [torch.randn(2, 2, prefix + 6, 4) for _ in range(3)]
    new = Frame(pope, pos, prefix=prefix).rotate(*old)
    for before, after in zip(old[:2], new[:2]):
        assert after.shape == (2, 2, prefix + 6, 8)
        close(after[:, :, :prefix, :4], before[:, :, :prefix].exp().log1p())
        assert not after[:, :, :prefix, 4:].any()
    assert torch.equal(new[2], old[2])


@pytest.mark.parametrize("causal", [False, True])
def test_pope_keeps_the_scale_and_the_kernel(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """1/sqrt(D), not 1/sqrt(2D); q, k and v reach the kernel in one width and y comes back in v's."""
    spec = Spec(8, 2, (6,), causal)
    pope, pos = phased(spec, torch.full((2, 4), -1.0)), Positions.line(6)
    frame = Frame(pope, pos)
    assert frame.scale == 0.5
    q, k, v = (torch.randn(2, 2, 6, 4) for _ in range(3))
    turned_q, turned_k, _ = frame.rotate(q, k, v)
    logits = turned_q @ turned_k.mT / 2
    if causal:
        logits = logits.masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf"))
    expected = logits.softmax(-1) @ v
    seen = []
    kernel = F.scaled_dot_product_attention

    def spy(*tensors: Any, **options: Any) -> Tensor:
        seen.append([x.shape[-1] for x in tensors[:3]])
        return kernel(*tensors, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    close(frame.attend(turned_q, turned_k, v), expected)
    assert seen == [[8, 8, 8]]


def test_pope_cache_holds_wide_keys_and_narrow_values() -> None:
    gpt = build.model("pope", build.TEXT)
    cache, tokens = Cache(build.DEPTH, 12), build.inputs(build.TEXT, (12,))
    with torch.no_grad():
        pieces = [gpt(tokens[:, first : first + 4], cache) for first in range(0, 12, 4)]
        close(torch.cat(pieces, dim=1), gpt(tokens), rtol=1e-4, atol=1e-5)
    held = cache._layers[0]
    assert held is not None and [x.shape[-1] for x in held] == [16, 8]


def test_pope_in_half_precision_is_right_to_rounding() -> None:
    """softplus and angles are float32, the result is cast once."""
    pope, pos = phased(Spec(8, 2, (6,), True), torch.rand(2, 4) * -6), Positions.line(3000)
    q, k = torch.randn(1, 2, 3000, 4).bfloat16(), torch.randn(1, 2, 3000, 4).bfloat16()
    exact = pope.rotate(q.float(), k.float(), k.float(), pos)
    for half, whole in zip(pope.rotate(q, k, k, pos)[:2], exact):
        assert half.dtype == torch.bfloat16
        assert torch.equal(half, whole.bfloat16())


@pytest.mark.parametrize("init", ["zeros", "uniform"])
def test_pope_starts(init: Any) -> None:
    """heads * D numbers in each layer, at zero or anywhere in the range."""
    gpt = GPT(vocab=7, context=16, dim=64, heads=4, depth=3, pos=lambda spec: PoPE(spec, init=init))
    phases = [parameter for name, parameter in gpt.named_parameters() if "position" in name]
    assert [phase.shape for phase in phases] == [(4, 16)] * 3
    everything = torch.cat(phases).detach()
    if init == "zeros":
        assert not everything.any()
    else:
        assert -2 * math.pi <= everything.min() < -5.5 and -0.5 < everything.max() <= 0
        assert everything.unique().numel() == everything.numel()


def test_pope_phases_come_back() -> None:
    """At an end of the range and beyond, where a clamp has no gradient, they have that of the end."""
    start = torch.tensor([[0.0, 0.3, 2.0, -1.0], [-6.5, -9.0, -2 * math.pi, -1.0]])
    gradients = []
    for phase in (start, start.clamp(-2 * math.pi, 0)):
        pope = phased(TEXT, phase)
        scores(pope).square().sum().backward()
        assert pope.phase.grad is not None and pope.phase.grad.ne(0).all()
        gradients.append(pope.phase.grad)
    close(*gradients)
