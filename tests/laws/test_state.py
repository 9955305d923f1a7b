"""What a model stores, learns and reads from its configuration."""

from __future__ import annotations

import importlib
import inspect
import itertools
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from poslab.positions import NotDefined, PositionEncoding, Positions, Spec

from . import build
from .build import DEPTH, GRID, PATCH, SETTINGS, TEXT, Setting

LARGER = {True: {"context": 40}, False: {"image_size": (6 * PATCH[0], 7 * PATCH[1])}}


@pytest.mark.parametrize("word, setting", build.model_cases())
def test_only_what_is_learned_is_stored(word: str, setting: Setting) -> None:
    model = build.model(word, setting)
    assert not list(model.buffers()), "a position buffer is lost on the meta device and cast by .bfloat16()"
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32 and parameter.requires_grad, name


@pytest.mark.parametrize("word, setting", build.model_cases())
def test_loads_at_another_size(word: str, setting: Setting) -> None:
    """Strictly, where no parameter has the shape of the extent; one that has is refused by its name."""
    model = build.model(word, setting)
    larger = build.model(word, setting, random=False, **LARGER[setting.causal])
    here, there = model.trunk.encoding.spec.extent, larger.trunk.encoding.spec.extent
    assert here != there
    own, other = model.state_dict(), larger.state_dict()
    follow = [name for name in own if own[name].shape != other[name].shape]
    if not follow:
        larger.load_state_dict(own, strict=True)
        assert all(torch.equal(value, own[name]) for name, value in larger.state_dict().items())
        return
    for name in follow:
        assert name.startswith("trunk.position."), f"{name} follows the extent"
        assert len(own[name].shape) == len(other[name].shape)
    with pytest.raises(RuntimeError, match=follow[0]):
        larger.load_state_dict(own, strict=True)


def test_who_follows_the_extent() -> None:
    """Of the eleven first encodings only the learned table has a row for each position."""
    firsts = ["none", "learned", "sine", "sine2d", "rope", "rope2d", "rope2d_mixed", "alibi", "alibi2d", "t5", "shaw"]
    following = set()
    for word in firsts:
        for setting in SETTINGS:
            if build.refusal(build.factory(word), setting) is None:
                own = build.encoding(word, setting).state_dict()
                bigger = Setting(setting.name, tuple(2 * side for side in setting.extent), setting.causal)
                other = build.encoding(word, bigger).state_dict()
                if any(own[name].shape != other[name].shape for name in own):
                    following.add(word)
    assert following == {"learned"}


# ---- parameters ----


@pytest.mark.parametrize("word, setting", build.model_cases())
def test_parameters_live_in_one_place(word: str, setting: Setting) -> None:
    """All of an encoding's parameters are under trunk.position, once; blocks hold none of them."""
    model = build.model(word, setting)
    inside = [parameter for name, parameter in model.named_parameters() if name.startswith("trunk.position.")]
    encodings = [module for module in model.modules() if isinstance(module, PositionEncoding)]
    owned = {id(parameter) for module in encodings for parameter in module.parameters()}
    assert {id(parameter) for parameter in inside} == owned and len(inside) == len(owned)
    assert not any(isinstance(module, PositionEncoding) for module in model.trunk.blocks.modules())
    assert len(model.trunk.position) == (DEPTH if model.trunk.encoding.per_layer or "-" in word else 1)


def check_gradients(model: nn.Module, setting: Setting) -> None:
    """After one backward of random parameters every tensor of every layer has a gradient somewhere."""
    model.train()
    model(build.inputs(setting)).square().sum().backward()
    dead = [name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()]
    assert not dead, f"no gradient reaches {dead}"
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("word, setting", build.model_cases())
def test_every_parameter_learns(word: str, setting: Setting) -> None:
    check_gradients(build.model(word, setting), setting)


class FirstLayerOnly(PositionEncoding):
    """Every layer has frequencies and uses those of the first one."""

    per_layer = unbounded = True
    first: dict[str, nn.Parameter] = {}

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.slope = nn.Parameter(torch.ones(spec.heads))
        if spec.layer == 0:
            self.first["slope"] = self.slope

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return -self.first["slope"][:, None, None] * (q_pos.axis(0)[:, None] - k_pos.axis(0)[None]).abs()


class DataWriter(PositionEncoding):
    """A bias table that is read behind the back of autograd."""

    unbounded = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.slope = nn.Parameter(torch.ones(spec.heads))

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return -self.slope.data[:, None, None] * (q_pos.axis(0)[:, None] - k_pos.axis(0)[None]).abs()


@pytest.mark.parametrize("broken", [FirstLayerOnly, DataWriter])
def test_gradient_law_can_fail(broken: type[PositionEncoding]) -> None:
    with pytest.raises(AssertionError, match="no gradient"):
        check_gradients(build.model(broken, TEXT), TEXT)


@pytest.mark.parametrize("word, setting", build.model_cases())
def test_meta_device(word: str, setting: Setting) -> None:
    """Built without memory, then given some and initialised: the model that a direct build gives."""
    direct = build.model(word, setting, random=False)
    with torch.device("meta"):
        late = build.model(word, setting, random=False)
    assert all(parameter.is_meta for parameter in late.parameters())
    late.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in late.parameters():
            parameter.fill_(float("nan"))
    for model in (direct, late):
        torch.manual_seed(5)
        model.init_weights()
    assert [name for name, _ in direct.named_parameters()] == [name for name, _ in late.named_parameters()]
    for (name, here), there in zip(direct.named_parameters(), late.parameters(), strict=True):
        assert torch.equal(here, there), name
    tokens = build.inputs(setting)
    assert torch.equal(direct(tokens), late(tokens))


# ---- every key of a file changes the result ----


def outcomes(pos: build.Factory, training: bool, warm: bool) -> list[Tensor | str | None]:
    """What models give in every setting, at the trained and at larger sizes, at their start or randomised.

    In training mode what is drawn at random is drawn from the same seed.
    """
    found: list[Tensor | str | None] = []
    for setting in SETTINGS:
        if build.refusal(pos, setting) is not None:
            found.append(None)
            continue
        model = build.model(pos, setting, random=warm).train(training)
        if not warm:  # heads start at zero, which would hide everything
            nn.init.normal_(model.head.weight, generator=torch.Generator().manual_seed(0))
        for size in [(24,), (90,)] if setting.causal else [GRID, (7, 9), (2, 3)]:
            torch.manual_seed(0)
            try:
                with torch.no_grad():
                    found.append(model(build.inputs(setting, size)))
            except NotDefined as refused:
                found.append(str(refused))
    return found


def differ(here: Tensor | str | None, there: Tensor | str | None) -> bool:
    if isinstance(here, Tensor) and isinstance(there, Tensor):
        return bool((here - there).abs().max() > 1e-6 * here.abs().max())
    return type(here) is not type(there) or here != there


def check_alive(one: build.Factory, other: build.Factory, key: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mode in itertools.product((False, True), repeat=2):
            if any(map(differ, outcomes(one, *mode), outcomes(other, *mode))):
                return
    raise AssertionError(f"{key} changes nothing: text or image, at the trained size or at another")


KEYS = [(word, key, value) for word in build.WORDS for key, value in build.variations(word)]


@pytest.mark.parametrize("word, key, value", KEYS, ids=[f"{w}-{k}={v}" for w, k, v in KEYS])
def test_every_key_changes_the_result(word: str, key: str, value: object) -> None:
    check_alive(build.factory(word), build.changed(word, key, value), key)


@pytest.mark.parametrize("word", build.WORDS)
def test_the_file_names_every_key(word: str) -> None:
    """Each keyword of a class stands in its file with the default of the code: the file is the documentation."""
    for path, node in build._nodes(build.keys(word)):
        module, _, name = node["_target_"].rpartition(".")
        signature = inspect.signature(getattr(importlib.import_module(module), name).__init__)
        expected = {key for key in signature.parameters if key not in ("self", "spec")}
        given = {key for key in node if not key.startswith("_")}
        assert given == expected, f"{word}{path}: {given ^ expected}"


def test_dead_key_law_can_fail() -> None:
    class IgnoresTheta(PositionEncoding):
        unbounded = True

        def __init__(self, spec: Spec, theta: float = 1.0) -> None:
            super().__init__(spec)
            self.theta = theta  # and never again

        def embed(self, pos: Positions) -> Tensor:
            return pos.axis(0)[:, None].float().expand(-1, self.spec.dim)

    make: Callable[[float], build.Factory] = lambda theta: lambda spec: IgnoresTheta(spec, theta)  # noqa: E731
    with pytest.raises(AssertionError, match="theta changes nothing"):
        check_alive(make(1.0), make(2.0), "theta")
