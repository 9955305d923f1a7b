"""What every tracker is told about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..evaluators.settings import leaves


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """{"optim": {"lr": 1}} -> {"optim.lr": 1}, without what is no setting.

    The words are there too: pos=rope and pos.theta=10000 side by side, so that runs can be filtered by encoding.
    """
    ours = ("_target_", "_partial_")
    found = leaves(config, ("choices", "overrides", "multirun"))
    settings = {path: value for path, value in found if path.rpartition(".")[2] not in ours}
    return settings | config.get("choices", {})


def sweep_of(directory: Path) -> str | None:
    """The name of the sweep whose directory a run is in."""
    return directory.parent.name if directory.parent.parent.name == "sweeps" else None
