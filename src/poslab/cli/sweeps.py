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
    srun = "SLURM_STEP_ID" in os.environ and os.environ.get("SLURM_NTASKS", "1") != "1"
    if multirun and ours and (srun or "TORCHELASTIC_RUN_ID" in os.environ):
        starter = "srun" if srun else "torchrun"
        raise UsageError(
            f"-m under {starter}: each process would sweep. Leave {starter} out; hardware=ddp starts processes."
        )
