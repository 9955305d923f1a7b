"""The configuration that a command line gives, without the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

CONFIGS = Path(__file__).parents[1] / "configs"
GPT = ["model=gpt", "data=copy", "data.length=4", "data.samples=320", "model.dim=32", "model.heads=2", "model.depth=2"]
GPT += ["steps=14", "validate_every=5", "evaluate=none", "hardware=cpu"]
GPT += ["global_batch_size=32"]
VIT = ["model=vit", "data=digits", "model.patch_size=2", "model.dim=32", "model.heads=2", "model.depth=2"]
VIT += ["epochs=null", "steps=14", "validate_every=5", "evaluate=none", "hardware=cpu"]


def configuration(*overrides: str, name: str = "train") -> dict[str, Any]:
    """Plain and resolved, with `choices` and `overrides`, as train.py hands it to `fit`."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose(name, list(overrides), return_hydra_config=True)
    choices = {group: word for group, word in config.hydra.runtime.choices.items() if not group.startswith("hydra/")}
    plain = OmegaConf.to_container(
        OmegaConf.masked_copy(config, [key for key in config if key != "hydra"]), resolve=True
    )
    return plain | {"choices": choices, "overrides": list(overrides), "multirun": False}  # type: ignore[operator]
