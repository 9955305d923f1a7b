"""Read a finished run: everything is in its directory, wherever that has been moved."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import yaml
from torch import nn

from .build import build_data, build_model
from .data.tokenizer import load_tokenizer
from .data.tokens import Prompts
from .errors import UsageError


@dataclass(frozen=True)
class Run:
    """A run directory: `config.yaml`, `summary.json`, `checkpoints/`."""

    directory: Path

    @property
    def name(self) -> str:
        return self.directory.resolve().name

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved configuration; `choices` holds the words that chose model, pos and data."""
        return yaml.safe_load((self.directory / "config.yaml").read_text())

    @cached_property
    def summary(self) -> dict[str, Any]:
        path = self.directory / "summary.json"
        return json.loads(path.read_text()) if path.exists() else {"status": "unfinished"}

    @property
    def choices(self) -> dict[str, str]:
        return self.config["choices"]

    def checkpoint(self, which: str = "last") -> Path:
        """Path of `last` or `best`; UsageError where it was never written, or is in parts."""
        path = self.directory / "checkpoints" / f"{which}.ckpt"
        if not path.exists():
            raise UsageError(f"{self.directory} has no {which} checkpoint: the run stopped before it saved one.")
        if path.is_dir():
            raise UsageError(f"{path} is in parts: python -m poslab.consolidate {self.directory} makes plain files.")
        return path

    def checkpoint_sha(self, which: str = "last") -> str:
        """A hash of the checkpoint's bytes."""
        return hashlib.sha256(self.checkpoint(which).read_bytes()).hexdigest()[:16]

    @cached_property
    def data(self) -> Any:
        kept = self._tokenizer
        return build_data(self.config | {"data": self.config["data"] | ({"tokenizer": str(kept)} if kept else {})})

    @property
    def prompts(self) -> Any:
        """What turns text into tokens and back: the data, or a tokenizer that the run kept, which needs no data."""
        kept = self._tokenizer
        return Prompts(load_tokenizer(str(kept)), self.config["data"]["context"]) if kept else self.data

    @property
    def _tokenizer(self) -> Path | None:
        path = self.directory / "tokenizer.json"
        return path if path.exists() else None

    def with_config(self, config: dict[str, Any]) -> Run:
        """The same run and data under another configuration."""
        other = Run(self.directory)
        vars(other).update(config=config, data=self.data, summary=self.summary)
        return other

    def load_model(self, which: str = "last", device: torch.device | str = "cpu") -> nn.Module:
        """The trained model, ready to evaluate. A checkpoint is read as data: nothing in it can run."""
        with warnings.catch_warnings():  # whatever there is to warn of was said when it was trained
            warnings.simplefilter("ignore")
            model = build_model(self.config, self.prompts)
        model.load_state_dict(model_weights(self.checkpoint(which)))
        return model.to(device).eval()


def model_weights(path: Path) -> dict[str, torch.Tensor]:
    """The model's state dict out of a checkpoint; UsageError where that holds more than tensors and plain values."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    except UnpicklingError as error:
        raise UsageError(f"{path} is damaged or holds more than tensors and plain values: it is not loaded.") from error
    return {key.removeprefix("model."): value for key, value in state.items() if key.startswith("model.")}


def load_run(directory: str | Path) -> Run:
    """The run in a directory; UsageError where there is none."""
    directory = Path(directory)
    if not (directory / "config.yaml").exists():
        what = "is no run directory: it has no config.yaml" if directory.is_dir() else "does not exist"
        raise UsageError(f"{directory} {what}.")
    return Run(directory)
