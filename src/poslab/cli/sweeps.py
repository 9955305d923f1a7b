"""What a command line may say about sweeps."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..errors import UsageError


def check_sweep_keys(overrides: Sequence[str], flag: bool, experiment: bool) -> None:
    """UsageError where sweep=, resume= and -m do not go together; `flag` is -m, or the experiment is a sweep."""
    given = dict(override.partition("=")[::2] for override in overrides)
    name, resume = given.get("sweep", "null"), given.get("resume", "null")
    ours = given.get("hydra/launcher", "local") in ("local", "slurm")  # the launchers of poslab
    multirun = flag or given.get("hydra.mode", "MULTIRUN" if experiment else "RUN") == "MULTIRUN"
    if name != "null" and not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"sweep={name}: a name becomes a folder, letters, digits, and . _ - between them.")
    if name != "null" and not multirun:
        raise UsageError(f"sweep={name}: add -m, which makes one run for each combination of values.")
    if name != "null" and not ours:
        raise UsageError(f"sweep={name}: only hydra/launcher=local and slurm keep sweeps; choose one of them.")
    if resume != "null" and multirun and ours:
        raise UsageError(f"resume={resume}: a sweep goes on by its name, sweep=NAME; one run without -m.")
    if multirun and ours and "TORCHELASTIC_RUN_ID" in os.environ:
        raise UsageError(
            "-m under torchrun: each process would sweep. Leave torchrun out; hardware=ddp starts processes."
        )
