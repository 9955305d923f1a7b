"""Weights & Biases, when asked for."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from ..errors import UsageError

log = logging.getLogger("poslab")


def wandb_logger(options: dict[str, Any], directory: Path, config: dict[str, Any]) -> Any:
    """A WandbLogger with the resolved configuration. Offline, with one line that says so, where there is no key."""
    try:
        import wandb
        from lightning.pytorch.loggers import WandbLogger
    except ImportError as error:
        raise UsageError("logger=wandb needs the wandb package: pip install 'poslab[wandb]'.") from error
    os.environ.setdefault("WANDB_SILENT", "true")
    mode = options["mode"]
    if mode == "auto":
        mode = os.environ.get("WANDB_MODE") or ("online" if _has_key(wandb) else "offline")
    if mode == "offline":
        log.info(f"wandb: recording offline, send it later with: wandb sync {directory / 'wandb' / 'offline-run-*'}")
    logger = WandbLogger(
        name=directory.name,
        save_dir=directory,
        project=options["project"],
        entity=options["entity"],
        group=options["group"],
        tags=list(options["tags"]),
        offline=mode == "offline",
        mode=mode,
        config=config | config["choices"],  # pos=..., model=... as plain words to filter by
    )
    return logger


def _has_key(wandb: Any) -> bool:
    try:
        return bool(wandb.api.api_key)
    except Exception:  # an unreadable netrc is no key
        return False


def finish_wandb(exit_code: int) -> None:
    """End the run of this job, failed if it failed, so that the next job of a sweep opens its own."""
    import wandb

    if wandb.run is not None:
        wandb.finish(exit_code=exit_code)
