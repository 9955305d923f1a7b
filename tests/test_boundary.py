"""The core knows nothing of the frameworks around it, and this test would notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "poslab"
FRAMEWORKS = {"lightning", "pytorch_lightning", "hydra", "omegaconf", "wandb"}
CORE = sorted(
    path
    for folder in ("positions", "models", "evaluators", "data")
    for path in (ROOT / folder).rglob("*.py")
    if path != ROOT / "data" / "module.py"  # the Lightning edge of the folder
)


def imported(source: str, package: str) -> Iterator[str]:
    """Absolute names of the modules that a file of `package` imports, wherever in the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parents, node.module] if node.module else parents)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def reached(path: Path, seen: set[Path]) -> Iterator[tuple[Path, str]]:
    """(file, foreign module) for a file and every file of poslab that it leads to."""
    if path in seen:
        return
    seen.add(path)
    package = ".".join(["poslab", *path.parent.relative_to(ROOT).parts])
    for name in imported(path.read_text(), package):
        if name.split(".")[0] != "poslab":
            yield path, name
            continue
        inner = ROOT.joinpath(*name.split(".")[1:])
        for file in (inner.with_suffix(".py"), inner / "__init__.py"):
            if file.exists():
                yield from reached(file, seen)


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_core_reaches_no_framework(path: Path) -> None:
    found = [(file.name, name) for file, name in reached(path, set()) if name.split(".")[0] in FRAMEWORKS]
    assert not found


@pytest.mark.parametrize(
    "source", ["import lightning as L", "def f():\n    from hydra.utils import instantiate", "from wandb import init"]
)
def test_the_boundary_test_can_fail(source: str) -> None:
    assert FRAMEWORKS & {name.split(".")[0] for name in imported(source, "poslab.positions")}


def test_relative_imports_are_followed() -> None:
    assert "poslab.training.fit" in set(imported("from ..training import fit", "poslab.positions"))
    assert "lightning" in {name for _, name in reached(ROOT / "tasks" / "base.py", set())}


def test_dependencies_point_one_way() -> None:
    order = ["positions", "models", "data", "evaluators", "training", "tasks"]
    above = {
        "positions": set(order[1:]),
        "models": set(order[2:]),
        "data": set(order[3:]),
        "evaluators": set(order[4:]),
    }
    for folder, forbidden in above.items():
        for path in (ROOT / folder).glob("*.py"):
            names = set(imported(path.read_text(), f"poslab.{folder}"))
            assert not {name for name in names if name.split(".")[1:2] and name.split(".")[1] in forbidden}, path


def test_importing_poslab_is_light() -> None:
    names = set(imported((ROOT / "__init__.py").read_text().split("def __getattr__")[0], "poslab"))
    assert names <= {"typing", "typing.Any", "__future__", "__future__.annotations"}
