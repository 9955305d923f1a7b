"""Parts that do not go together. Their classes know, so this imports torch, but never Lightning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from .check import Checked, near
from .compositions import parts_of
from .configs import Configs


def check_pairs(configs: Configs, checked: Checked) -> None:
    """UsageError about the first model with an encoding or data that it cannot take, in any job of a sweep."""
    from ..build import locate

    for composed in checked.composed:
        if {"model", "pos", "data"} <= composed.choices.keys():
            kind = locate(composed.values["model"]["_target_"]).reads  # type: ignore[attr-defined]
            model = composed.choices["model"]
            for pos in checked.words.get("pos", [composed.choices["pos"]]):
                check_encoding(configs, f"model={model}", kind, pos)
            for data in checked.words.get("data", [composed.choices["data"]]):
                check_data(configs, f"model={model}", kind, data)


def check_encoding(configs: Configs, model: str, kind: str, pos: str) -> None:
    """A ViT reads its patches row by row to an encoding of texts; a text has no rows and columns."""
    if len(kinds := {axes(configs, part) for part in parts_of(pos)} - {None}) > 1:
        raise UsageError(f"pos={pos}: one part describes text, another {max(kinds)}-D grids; take parts of one kind.")  # type: ignore[type-var]
    if kind == "text" and axes(configs, pos) not in (None, 1):
        fitting = [word for word in configs.options("pos") if axes(configs, word) in (None, 1)]
        raise UsageError(
            f"pos={pos} describes {axes(configs, pos)}-D grids, {model} has 1-D text. {use('pos', pos, fitting)}"
        )


def check_data(configs: Configs, model: str, kind: str, data: str) -> None:
    if data_kind(configs, data) not in (None, kind):
        fitting = [word for word in configs.options("data") if data_kind(configs, word) == kind]
        raise UsageError(
            f"data={data} has {data_kind(configs, data)}s, {model} reads {kind}s. {use('data', data, fitting)}"
        )


def use(group: str, word: str, fitting: list[str]) -> str:
    """The fix: the nearest by name, then the others."""
    best = (near(word, fitting) or fitting)[0]
    others = [other for other in fitting if other != best]
    return f"Use {group}={best}" + (f", or {'one of: ' if others[1:] else ''}{', '.join(others)}." if others else ".")


def axes(configs: Configs, pos: str) -> int | None:
    """The axes that a word of configs/pos describes; None for any number, or for a word from elsewhere."""
    from ..build import locate

    for word in parts_of(pos):
        target = part(configs, "pos", word).get("_target_")
        if target and (found := getattr(locate(target), "axes", None)) is not None:
            return found  # type: ignore[no-any-return]
    return None


def data_kind(configs: Configs, data: str) -> str | None:
    from ..build import locate

    node = part(configs, "data", data)
    return getattr(locate(node["_target_"]), "kind", None) if "_target_" in node else None


def part(configs: Configs, group: str, word: str) -> Mapping[str, Any]:
    """The keys of a word's own file, without the group in front."""
    node = configs.node(group, word).items()
    return {key.removeprefix(f"{group}."): value for key, value in node if key.count(".") == 1}
