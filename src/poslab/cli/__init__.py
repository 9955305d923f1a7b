"""The command line of train.py and eval.py: light until something runs."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from ..errors import Interrupted, JobFailed, UsageError
from ..parent import die_with_parent
from ..trust import trust
from .check import check, missing
from .compositions import SCRATCH, composed_words, write_compositions
from .configs import CONFIGS, Configs
from .flags import parse_flags
from .gate import check_files, typed_trust
from .pages import help_page
from .pairs import check_pairs
from .sweeps import check_sweep_keys

__all__ = ["main"]

Work = Callable[[dict[str, Any]], Any]


def main(work: Work, name: str) -> None:
    """Check the command line, then let Hydra call `work` with the plain configuration of each job.

    Exits with 2 and one sentence where the person at the command line can fix it, with 130 where they
    stopped it, with 1 after a sweep in which a job failed, and with 1 and the whole traceback where it is
    a fault of the program.
    """
    die_with_parent()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    # OpenMP reads this once, with torch. Threads that spin as they wait slow a shared machine 20-fold.
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    try:
        with ExitStack() as stack:
            if prepare(work, name, stack):
                hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=name)(job(work))()
    except UsageError as error:
        if first_process():
            print(error, file=sys.stderr)
        sys.exit(2)
    except JobFailed:
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def prepare(work: Work, name: str, stack: ExitStack) -> bool:
    """Check sys.argv and put it in the order that Hydra reads; False where nothing is left to do."""
    flags = parse_flags(sys.argv[1:])
    if not flags.passed_on:
        directory = Path(inspect.getfile(work)).parent / flags.config_path if flags.config_path else CONFIGS
        more = [f"file://{Path(flags.config_dir).absolute()}"] if flags.config_dir else []
        words = composed_words(flags.overrides)
        if words:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=SCRATCH)))
            write_compositions(words, Configs(name, directory, more).options("pos"), scratch)
            more.append(f"file://{scratch}")
        configs = Configs(flags.config_name or name, directory, more)
        checked = check(configs, flags.overrides, flags.multirun)
        check_files(checked)
        trust(*typed_trust(configs, flags.overrides))
        if flags.help:
            print(help_page(configs, checked.composed[0]))
            return False
        if flags.runs:
            missing(configs, checked, flags.overrides)
            check_pairs(configs, checked)
            check_sweep_keys(flags.overrides, flags.multirun, checked.composed[0].multirun)
        if words:
            flags.overrides.append(f"hydra.searchpath=[{more[-1]}]")
    switches = [argument for argument in sys.argv[1:] if argument not in flags.overrides]
    set_by_hand = {override.partition("=")[0] for override in flags.overrides}
    if "hydra.sweep.dir" not in set_by_hand:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="poslab-"))
        flags.overrides.append(f"hydra.sweep.dir='{scratch}'")  # Hydra keeps the multirun.yaml of a sweep there
    sys.argv[1:] = [*flags.overrides, *switches]
    return True


def job(work: Work) -> Callable[[DictConfig], Any]:
    """What Hydra calls once for each job."""

    @functools.wraps(work)  # Hydra names the job after the file of `work`
    def task(config: DictConfig) -> Any:
        plain = plain_configuration(config, HydraConfig.get())
        try:
            return work(plain)
        except UsageError as error:
            if first_process():
                print(f"poslab: {error}", file=sys.stderr)
            raise SystemExit(2) from None  # no Exception: Hydra adds a line of its own to those
        except Interrupted as stop:
            raise SystemExit(stop.code) from None

    return task


def plain_configuration(config: DictConfig, hydra_config: Any) -> dict[str, Any]:
    """What `work` gets for a job: resolved values, the word of each group in `choices`, and what was typed."""
    ours = OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
    plain: dict[str, Any] = OmegaConf.to_container(ours, resolve=True)  # type: ignore[assignment]
    words = hydra_config.runtime.choices.items()
    return plain | {
        "overrides": list(hydra_config.overrides.task),
        "multirun": hydra_config.mode is RunMode.MULTIRUN,
        "choices": {group: word for group, word in words if not group.startswith("hydra/")},
    }


def first_process() -> bool:
    """Whether this is the one process, of those that torchrun or srun started, that speaks."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"))
