"""Weights & Biases, when asked for."""

from __future__ import annotations

import logging
import os
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any

from ..evaluators.settings import leaves

log = logging.getLogger("poslab")


def wandb_logger(options: dict[str, Any], directory: Path, config: dict[str, Any]) -> Any:
    """A WandbLogger with the resolved configuration. Offline, with one line that says so, where there is no key."""
    from lightning.pytorch.loggers import WandbLogger  # with wandb, seconds of imports

    os.environ.setdefault("WANDB_SILENT", "true")
    mode = options["mode"]
    if mode == "auto":
        asked = os.environ.get("WANDB_MODE")
        mode = "offline" if asked in ("offline", "dryrun") or not _has_key() else "online"
    if mode == "offline":
        log.info(f"wandb: recording offline, send it later with: wandb sync {directory / 'wandb' / 'offline-run-*'}")
    return WandbLogger(
        name=directory.name,
        save_dir=directory,
        project=options["project"],
        entity=options["entity"],
        group=options["group"],
        tags=list(options["tags"]),
        offline=mode == "offline",
        mode=mode,
        config=flat(config) | config["choices"],  # pos=rope and pos.theta=10000 side by side: words to filter by
    )


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """{"optim": {"lr": 1}} -> {"optim.lr": 1}, without what is no setting."""
    ours = ("_target_", "_partial_")
    found = leaves(config, ("choices", "overrides", "multirun"))
    return {path: value for path, value in found if path.rpartition(".")[2] not in ours}


def _has_key() -> bool:
    """Whether `wandb login` was done on this machine: it leaves the key in the environment or in a netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").split("//")[-1].split("/")[0].split(":")[0]
    try:
        return netrc(os.environ.get("NETRC") or Path.home() / ".netrc").authenticators(host) is not None
    except (OSError, NetrcParseError):
        return False


def finish_wandb(exit_code: int) -> None:
    """End the run of this job, failed if it failed, so that the next job of a sweep opens its own."""
    import wandb

    if wandb.run is not None:
        wandb.finish(exit_code=exit_code)
