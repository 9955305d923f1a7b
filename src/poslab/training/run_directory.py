"""Make a run directory and keep what it says about itself true."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml

from ..device import device_name
from ..files import new_directory, write
from .launched import launched

AGREED = "POSLAB_RUN_DIRECTORY"  # the directory that rank 0 made, for the processes it starts


def make(config: dict[str, Any]) -> Path:
    """`runs/<time>_<model>_<pos>_<data>_s<seed>/`, new and ours alone: a second launch in the same second
    gets `-2`. Writes config.yaml. In a job of several processes all of them get the directory of rank 0."""
    directory = agreed(lambda: _make_new(config))
    assert directory is not None
    return directory


def agreed(choose: Callable[[], Path | None]) -> Path | None:
    """What rank 0 chooses; the other processes of its job wait for it, or were started with it."""
    if AGREED in os.environ:
        return Path(os.environ[AGREED])
    together = launched()
    return together.agree(choose) if together else choose()


@contextmanager
def shared(directory: Path) -> Iterator[None]:
    """Processes that are started meanwhile find this directory."""
    before = os.environ.get(AGREED)
    os.environ[AGREED] = str(directory)
    try:
        yield
    finally:
        if before is None:
            del os.environ[AGREED]


def _make_new(config: dict[str, Any]) -> Path:
    words = [config["choices"][group] for group in ("model", "pos", "data")]
    name = "_".join([time.strftime("%Y%m%d-%H%M%S"), *words, f"s{config['seed']}"])
    directory = new_directory(Path(config["runs"]).absolute(), name)
    (directory / "checkpoints").mkdir()
    recorded = {key: value for key, value in config.items() if key not in ("overrides", "multirun", "trust")}
    write(directory / "config.yaml", yaml.safe_dump(recorded, sort_keys=False))
    return directory


class Summary:
    """summary.json: written at the start, at the end, and when something goes wrong."""

    def __init__(self, directory: Path, **facts: Any) -> None:
        self.path = directory / "summary.json"
        self.facts: dict[str, Any] = {"status": "running", **facts}
        self._began = time.time()
        if self.path.exists():  # resumed: time and best metrics go on
            before = json.loads(self.path.read_text())
            self._began -= before.get("seconds", 0.0)

    def save(self, **facts: Any) -> None:
        self.facts |= facts
        self.facts["seconds"] = round(time.time() - self._began, 1)
        write(self.path, json.dumps(self.facts, indent=2) + "\n")


def environment(device: torch.device) -> dict[str, Any]:
    """Where a run ran: device, versions, git commit of the code."""
    packages = ("torch", "lightning", "hydra-core", "poslab")
    return {
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), **{package: version(package) for package in packages}},
        "git_commit": _git_commit(),
    }


def _git_commit() -> str | None:
    try:
        here = Path(__file__).parent
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None
