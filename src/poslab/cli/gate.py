"""What a file of configuration may not do, whoever wrote it: say whom to trust, or have Hydra call something."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from .check import Checked
    from .configs import Configs

# what Hydra's own nodes name: its plugins, their samplers, and the classes of Python's logging
HYDRAS = r"hydra\._internal\.core_plugins\.[\w.]+|hydra_plugins\.[\w.]+|optuna\.samplers\.\w+"
LOGGING = r"logging\.(handlers\.)?\w+|colorlog\.ColoredFormatter"


def typed_trust(configs: Configs, overrides: Sequence[str]) -> list[str]:
    """The packages in trust=[...] on the command line."""
    typed = [override for override in overrides if override.partition("=")[0] == "trust"]
    values = [override.value() for override in configs.parser.parse_overrides(typed)]
    packages = [str(package) for value in values for package in (value if isinstance(value, list) else [""])]
    if not all(re.fullmatch(r"\w+(\.\w+)*", package) for package in packages):
        raise UsageError(f"{typed[0]}: list packages by their names, as trust=[mypackage].")
    return packages


def check_files(checked: Checked) -> None:
    """UsageError where a file says whom to trust."""
    for composed in checked.composed:
        if said := composed.values.get("trust"):
            raise UsageError(
                f"A file of this configuration says trust: {said}. Only the command line is heard: take it out there."
            )


def check_hydra(node: Any) -> None:
    """UsageError where Hydra's settings name a class that is not of Hydra, its plugins, or Python's logging."""
    for target in targets(node):
        if not re.fullmatch(f"{HYDRAS}|{LOGGING}", target):
            raise UsageError(f"hydra: a file of this configuration would have Hydra call {target}: it is not called.")


def targets(node: Any) -> Iterator[str]:
    """What the nodes in `node` would instantiate; `class` and `()` are how logging says it."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key in ("_target_", "class", "()"):
            yield str(value)
        yield from targets(value)
