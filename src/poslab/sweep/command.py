"""The command line of one job of a sweep."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir

from ..cli.compositions import SCRATCH

# of Hydra's own settings, those that say how to sweep; the job does not
OF_THE_SWEEP = ("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper", "hydra.sweep", "hydra.mode")


def command(
    script: Path, flags: Namespace, job: Sequence[str], hydra: Sequence[str], ours: Mapping[str, str]
) -> list[str]:
    """`python train.py` for one job, which any of its processes can repeat.

    Args:
        flags: of the sweep's command line; where configurations are is passed on.
        job, hydra: overrides of the job, and those of Hydra's settings.
        ours: key -> value, in place of what `job` says.
    """
    kept = [override for override in job if override.lstrip("+").partition("=")[0] not in ours]
    kept += [f"{key}={value}" for key, value in ours.items()]
    folder = f"file://{Path(gettempdir()) / SCRATCH}"  # each job writes its compositions itself
    kept.append("hydra.mode=RUN")  # whatever an experiment says
    kept += [each for each in hydra if not each.lstrip("+").startswith(OF_THE_SWEEP) and folder not in each]
    where = {"--config-path": flags.config_path, "--config-name": flags.config_name, "--config-dir": flags.config_dir}
    switches = [word for flag, value in where.items() if value for word in (flag, value)]
    return [sys.executable, str(script), *kept, *switches]


def quoted(path: Path) -> str:
    """A path as a value that Hydra's grammar reads back, whatever is in it."""
    plain = re.fullmatch(r"[\w./-]+", str(path))
    return str(path) if plain else "'" + str(path).replace("'", "\\'") + "'"
