"""Every encoding in configs/pos, built small: a new file there is tested without a line here."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
import yaml
from torch import Tensor, nn

from poslab.models import GPT, ViT
from poslab.positions import PositionEncoding, Positions, Spec, declared_axes
from poslab.positions.scaling import Scaling

Factory = Callable[[Spec], PositionEncoding]

CONFIGS = Path(__file__).parents[2] / "configs" / "pos"
# POSLAB_POS: a folder of such files from elsewhere, which the laws are held against instead
FOLDER = Path(os.environ.get("POSLAB_POS", CONFIGS))
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
# encodings compose: the laws hold for sums, for layers by turns and for scaled frequencies
SUMS = ["learned+rope", "rope2d_mixed+learned", "alibi+shaw"]
LAYERS = ["rope-none", "learned+rope-t5"]
SCALED = ["rope/yarn", "rope/dynamic_ntk", "rope/longrope", "rope2d/linear", "rope2d/llama3", "rope2d_mixed/ntk"]
WORDS = FILES + SUMS + LAYERS + SCALED if FOLDER == CONFIGS else FILES
# in heads of 8 at 24 positions the published values leave all pairs alone, or none, and keys would seem dead
RULES: dict[str, dict[str, Any]] = {
    "linear": {},
    "ntk": {},
    "dynamic_ntk": {"factor": 2.0},
    "yarn": {"factor": 2.0, "beta_fast": 1.0, "beta_slow": 0.01, "truncate": False},
    "llama3": {"factor": 2.0, "low": 0.05, "high": 2.0},
    "longrope": {"factor": 2.0, "long": [1.0, 1.5, 2.0, 3.0], "short": [1.0, 1.1, 1.2, 1.3]},
}

DIM, HEADS, DEPTH = 16, 2, 2
VOCAB, CONTEXT = 11, 24
CHANNELS, CLASSES, PATCH, GRID = 1, 3, (2, 3), (4, 6)  # patches are not square, grids neither


@dataclass(frozen=True)
class Setting:
    """A kind of input that an encoding may describe."""

    name: str
    extent: tuple[int, ...]
    causal: bool

    def positions(self, extent: tuple[int, ...] | None = None) -> Positions:
        size = extent or self.extent
        return Positions.line(*size) if len(size) == 1 else Positions.grid(*size)

    def spec(self, layer: int = 0) -> Spec:
        return Spec(DIM, HEADS, self.extent, self.causal, layer, DEPTH)


TEXT = Setting("text", (CONTEXT,), True)
RASTER = Setting("raster", (CONTEXT,), False)
IMAGE = Setting("image", GRID, False)
SETTINGS = (TEXT, RASTER, IMAGE)


def keys(word: str) -> dict[str, Any]:
    """The file as it stands; layers by turns for words joined by -, a sum for +, frequencies scaled for /."""
    if "-" in word:
        order = word.split("-")
        parts = {part: keys(part) for part in order}
        return {"_target_": "poslab.positions.layers.Layers", "parts": parts, "order": order}
    if "+" in word:
        parts = {part: keys(part) for part in word.split("+")}
        return {"_target_": "poslab.positions.sum.Sum", "_partial_": True, "parts": parts}
    word, _, rule = word.partition("/")
    file = yaml.safe_load(((FOLDER if word in FILES else CONFIGS) / f"{word}.yaml").read_text())
    file.pop("defaults", None)
    if rule:
        file["scaling"] = yaml.safe_load((CONFIGS / "scaling" / f"{rule}.yaml").read_text()) | RULES[rule]
    return file


def resolve(node: Any) -> Any:
    """A mapping with `_target_` becomes a partial of what it names, lists and mappings in depth."""
    if isinstance(node, list):
        return [resolve(item) for item in node]
    if not isinstance(node, dict):
        return node
    arguments = {name: resolve(value) for name, value in node.items() if not name.startswith("_")}
    if "_target_" not in node:
        return arguments
    module, _, name = node["_target_"].rpartition(".")
    target = getattr(importlib.import_module(module), name)
    return partial(target, **arguments) if node.get("_partial_") else target(**arguments)


def factory(word: str, **changes: Any) -> Factory:
    """What a model wants as `pos`: the file with some keys changed."""
    return resolve(keys(word) | changes)


def refusal(pos: Factory, setting: Setting) -> str | None:
    """The claim that keeps an encoding out of a setting, or None."""
    axes = declared_axes(pos)
    if axes not in (None, len(setting.extent)):
        return f"axes={axes}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pos(setting.spec())
    except ValueError as error:
        return f"refuses {setting.name}: {error}"
    return None


def cases(settings: tuple[Setting, ...] = SETTINGS) -> list[Any]:
    """(word, setting) for all words; where an encoding does not apply, a skip that names the claim."""
    found = []
    for word in WORDS:
        for setting in settings:
            why = refusal(factory(word), setting)
            marks = [pytest.mark.skip(reason=f"{word} in {setting.name}: {why}")] if why else []
            found.append(pytest.param(word, setting, id=f"{word}-{setting.name}", marks=marks))
    return found


def model_cases(settings: tuple[Setting, ...] = SETTINGS) -> list[Any]:
    """(word, setting) of the models: a ViT makes a line of its patches only where axes=1 asks for one."""
    found = cases(settings)
    for index, param in enumerate(found):
        word, setting = param.values
        axes = declared_axes(factory(word))
        if setting is RASTER and axes is None:
            skip = pytest.mark.skip(reason=f"{word} in raster: axes=None, a ViT gives it the grid")
            found[index] = pytest.param(word, setting, id=param.id, marks=[skip])
    return found


def candidates(value: Any, annotation: Any) -> list[Any]:
    """Other values for a key; where several numbers are given, one that can be built is enough."""
    if get_origin(annotation) is Literal:
        return [choice for choice in get_args(annotation) if choice != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [type(value)(2 * value), type(value)(value / 2)] if value else [1, 0.5]
    if value is None and annotation == Scaling | None:
        return [{"_target_": "poslab.positions.scaling.Linear", "factor": 2.0}]
    if value is None and annotation == int | None:
        return [7]
    if value is None and annotation == float | None:
        return [2.0, 0.5]
    if isinstance(value, list):
        return [[candidates(item, None)[0] for item in value]]
    raise TypeError(f"No other value known for {value!r}: annotate the key with a Literal.")


def variations(word: str) -> list[tuple[str, Any]]:
    """(key, other value) for each choice of each word, the other boolean, and numbers doubled or halved.

    None for a composition: the keys of its parts are changed where the parts stand alone.
    """
    if "+" in word or "-" in word:
        return []
    found = []
    for path, node in _nodes(keys(word)):
        module, _, name = node["_target_"].rpartition(".")
        hints = get_type_hints(getattr(importlib.import_module(module), name).__init__)
        for key, value in node.items():
            if "/" in word and not path:
                continue  # the keys of the encoding itself are those of its file
            if not key.startswith("_") and not _is_node(value):
                found += [(f"{path}{key}", other) for other in _buildable(word, f"{path}{key}", value, hints[key])]
    return found


def changed(word: str, path: str, value: Any) -> Factory:
    """The file with the key at a dotted path (lists by index) set to a value."""
    root = keys(word)
    *way, last = path.split(".")
    node: Any = root
    for step in way:
        node = node[int(step) if isinstance(node, list) else step]
    node[last] = value
    return resolve(root)


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))


def _nodes(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(node, list):
        return [found for index, item in enumerate(node) for found in _nodes(item, f"{path}{index}.")]
    if not isinstance(node, dict):
        return []
    own = [(path, node)] if "_target_" in node else []
    return own + [found for key, item in node.items() if _is_node(item) for found in _nodes(item, f"{path}{key}.")]


def _buildable(word: str, path: str, value: Any, annotation: Any) -> list[Any]:
    others = candidates(value, annotation)
    if get_origin(annotation) is Literal:
        return others
    for other in others:
        if any(refusal(changed(word, path, other), setting) is None for setting in SETTINGS):
            return [other]
    raise ValueError(f"{word}: none of {others} can be built for {path}.")


def randomise(module: nn.Module, seed: int = 1) -> None:
    """Move every parameter away from its start, so that nothing is hidden behind a zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator).to(parameter)


def encoding(word_or_factory: str | Factory, setting: Setting, layer: int = 0) -> PositionEncoding:
    """One encoding with random parameters, in evaluation mode; equal calls give equal ones."""
    pos = factory(word_or_factory) if isinstance(word_or_factory, str) else word_or_factory
    torch.manual_seed(0)
    built = pos(setting.spec(layer))
    randomise(built)
    return built.eval()


def model(word_or_factory: str | Factory, setting: Setting, random: bool = True, **options: Any) -> nn.Module:
    """A tiny GPT for text or ViT for the other settings, in evaluation mode; equal calls give equal ones."""
    pos = factory(word_or_factory) if isinstance(word_or_factory, str) else word_or_factory
    torch.manual_seed(0)
    common: dict[str, Any] = {"pos": pos, "dim": DIM, "heads": HEADS, "depth": DEPTH} | options
    built: nn.Module
    if setting.causal:
        built = GPT(**{"vocab": VOCAB, "context": setting.extent[0]} | common)
    else:
        pixels = (GRID[0] * PATCH[0], GRID[1] * PATCH[1])
        image = {"image_size": pixels, "patch_size": PATCH, "channels": CHANNELS, "classes": CLASSES, "registers": 1}
        built = ViT(**image | common)
    if random:
        randomise(built)
    return built.eval()


def inputs(setting: Setting, extent: tuple[int, ...] | None = None, batch: int = 2, seed: int = 2) -> Tensor:
    """Tokens, or images of a grid (raster order makes its line from the same images)."""
    generator = torch.Generator().manual_seed(seed)
    if setting.causal:
        return torch.randint(VOCAB, (batch, *(extent or setting.extent)), generator=generator)
    rows, columns = extent if extent and len(extent) == 2 else GRID
    return torch.randn(batch, CHANNELS, rows * PATCH[0], columns * PATCH[1], generator=generator)


def heads_of(setting: Setting, extent: tuple[int, ...] | None = None, batch: int = 2, prefix: int = 0, seed: int = 3):
    """Random q, k, v (B, H, prefix + T, D)."""
    generator = torch.Generator().manual_seed(seed)
    tokens = prefix + len(setting.positions(extent))
    return tuple(torch.randn(batch, HEADS, tokens, DIM // HEADS, generator=generator) for _ in range(3))
