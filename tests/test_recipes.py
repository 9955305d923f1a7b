"""Each published recipe composes and trains two steps on stand-in data made here; its head says what to expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poslab.cli.check import check
from poslab.cli.configs import Configs
from poslab.data.folder import ImageNet100
from poslab.run import load_run
from poslab.training.fit import fit
from tests.configuration import CONFIGS, configuration
from tests.test_images import album, cifar10
from tests.test_text import document, hub, rows_of

__all__ = ["album", "hub"]  # fixtures

RECIPES = [path.stem for path in CONFIGS.glob("experiment/*.yaml") if "\n# Recipe: " in path.read_text()]
SMALL = ["model.dim=32", "model.heads=2", "model.depth=1", "steps=2", "validate_every=2", "global_batch_size=6"]
SMALL += ["device_batch_size=2", "compile=false", "hardware=cpu", "evaluate.skip=true"]
SUBWORDS = ["data.context=16", "data.tokenizer=bpe", "data.vocab=300"]


def stand_in(recipe: str, folder: Path, datasets: Any) -> list[str]:
    """The words that put small data in the place of the recipe's."""
    texts: list[str | None] = [document(number).decode() for number in range(80)]
    if recipe == "shakespeare_char":
        (folder / "input.txt").write_text("".join(map(str, texts * 2)))
        return [f"data.folder={folder}/input.txt", "data.context=16", f"data.cache={folder}/cache"]
    if recipe == "nope_tasks":
        return ["data.length=4", "data.samples=100"]
    for split in ("train", "validation", "test"):
        rows_of(folder / "set", split, [" = Title = \n", "", *texts], datasets)
    more = ["data.held_out=0.1"] if recipe == "gpt2_fineweb_edu" else []
    return [f"data.name={folder}/set", f"data.cache={folder}/cache", *SUBWORDS, *more]


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_recipe_trains_on_stand_in_data(
    recipe: str, tmp_path: Path, hub: Any, album: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"experiment={recipe}", *SMALL, f"runs={tmp_path}/runs", "workers=0"]
    if "vit" in recipe:
        monkeypatch.setattr(ImageNet100, "chosen", frozenset({"ant", "bee", "cat"}))
        cifar10(tmp_path, monkeypatch)
        words += [f"data.root={tmp_path}"] if recipe == "vit_cifar" else [f"data.root={album}", "data.size=32"]
        words += ["data.validate=6", "model.heads=2"]
    else:
        words += stand_in(recipe, tmp_path, hub)
    check(Configs("train"), words)
    run = load_run(fit(configuration(*words)))
    assert (run.summary["status"], run.summary["steps"]) == ("complete", 2)
    whole = configuration(f"experiment={recipe}")
    assert whole["choices"]["data"] == run.choices["data"] != "stdlib"
    assert whole["model"]["dim"] >= 384 and (whole["steps"] or 88 * whole["epochs"]) >= 5000  # CIFAR's epochs have 88
    text = (CONFIGS / "experiment" / f"{recipe}.yaml").read_text()
    assert "# Source: " in text and "# Published" in text
    assert "Not run here." in text or "# Measured" in text


def test_there_are_recipes() -> None:
    texts = {"shakespeare_char", "gpt2_fineweb_edu", "alibi_wikitext103", "nope_tasks"}
    assert set(RECIPES) >= texts | {"rope_vit_s", "vit_in100", "vit_cifar"}
