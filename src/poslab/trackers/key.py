"""Whether wandb knows who this is, without importing it, which takes seconds."""

from __future__ import annotations

import os
from netrc import NetrcParseError, netrc
from pathlib import Path


def has_key() -> bool:
    """Whether `wandb login` was done on this machine: it leaves the key in the environment or in a netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").split("//")[-1].split("/")[0].split(":")[0]
    try:
        return netrc(os.environ.get("NETRC") or Path.home() / ".netrc").authenticators(host) is not None
    except (OSError, NetrcParseError):
        return False
