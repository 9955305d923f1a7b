"""From Hydra's list of jobs to processes, and back to what each returned."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, ListConfig, OmegaConf

from ..cli import plain_configuration
from ..cli.flags import parse_flags
from ..errors import JobFailed
from ..files import new_directory, shown
from ..lock import held
from ..training.plan import settle_length
from .command import command, quoted
from .job import SKIPPED, Job
from .pool import Pool, devices_of, visible_gpus
from .run import run_jobs
from .study import Study
from .watch import Watch, print_table


class Sweep:
    """The jobs of one command, in one directory; an adaptive sweeper launches several times."""

    resumes = False  # whether a job may be started again, where nobody named the sweep

    def __init__(
        self, context: HydraContext, task: TaskFunction, config: DictConfig, at_once: int | None, gpus: list[Any] | None
    ) -> None:
        self.loader, self.config, self.at_once = context.config_loader, config, at_once
        self.script = Path(inspect.getfile(inspect.unwrap(task))).absolute()
        self.gpus = visible_gpus() if gpus is None else [str(gpu) for gpu in gpus]
        self.flags = parse_flags(sys.argv[1:])
        self.started = time.strftime("%Y%m%d-%H%M%S")
        self.swept = swept_keys(self.loader, config)
        sweeps = Path(config.runs).absolute() / "sweeps"
        self.directory = sweeps / config.sweep if config.sweep else new_directory(sweeps, self.started)

    def launch(self, overrides: Sequence[Sequence[str]], first: int, alone: bool = True) -> list[JobReturn]:
        """Run a job for each list of overrides; raises SystemExit after a signal.

        `alone`: these are all, to be counted at the start and listed at the end.
        """
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        place = shown(self.directory)
        busy = f"{place}: process {{process}} is running this sweep; wait for it, or choose another sweep=NAME."
        with held(self.directory / "logs" / "lock", busy):
            for left in (self.directory / "logs").glob("*_*.json"):  # by a sweep that was killed
                left.unlink()
            jobs = self.jobs(overrides, first)
            with Watch(jobs) as watch:
                skipped = sum(job.done for job in jobs)
                if alone:
                    watch.say(f"{len(jobs)} jobs{f', {skipped} complete before' if skipped else ''}, in {place}")
                signum = self.run(jobs, watch)
        if not (alone or signum):
            return [returned(job, words) for job, words in zip(jobs, overrides)]
        print_table(watch.console, jobs)
        if any(job.done and job.directory for job in jobs) and not self.config.debug:
            watch.say(f"compare: python eval.py runs='{place}/*'")
        if signum or not all(job.done for job in jobs):
            name = "" if self.config.sweep else f" and sweep={self.directory.name}"
            watch.say(f"go on:   the same command{name}; what is complete is skipped")
        if signum:
            raise SystemExit(128 + signum)
        return [returned(job, words) for job, words in zip(jobs, overrides)]

    def run(self, jobs: Sequence[Job], watch: Watch) -> int:
        """Until all have ended; returns the signal that ended it early, or 0."""
        return run_jobs(jobs, Pool(jobs, self.gpus, self.at_once), watch)

    def jobs(self, overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
        """Checked against what the directory holds: UsageError before anything runs."""
        configs = [self.plain(words) for words in overrides]
        study = Study(self.directory, self.swept)
        for config in configs:
            study.check(config)
        study.record()
        jobs = []
        for index, (config, words) in enumerate(zip(configs, overrides), first):
            processes, gpus = devices_of(config["hardware"], len(self.gpus))
            ours = {"runs": quoted(self.directory)}
            if not any(word.startswith("evaluate.skip=") for word in words):
                ours["evaluate.skip"] = "true"  # eval.py measures all runs together
            if config["sweep"] or self.resumes:
                ours["resume"] = "auto"
            if isinstance(config["hardware"]["devices"], list) or gpus:
                ours["hardware.devices"] = str(processes)  # of those that the pool gives it
            line = command(self.script, self.flags, without(words, "sweep"), self.config.hydra.overrides.hydra, ours)
            label = " ".join(word for word in words if key_of(word) in self.swept) or " ".join(words)
            log = self.directory / "logs" / f"{self.started}_{index:03d}.log"
            job = Job(label, line, log, processes, gpus, config["hardware"]["num_nodes"])
            if run := study.complete(config):
                job.status, job.directory = SKIPPED, run.directory
            jobs.append(job)
        return jobs

    def plain(self, overrides: Sequence[str]) -> dict[str, Any]:
        """The configuration that a job will have."""
        composed = self.loader.load_sweep_config(self.config, list(overrides))
        return settle_length(plain_configuration(composed, composed.hydra))


class Returned(JobReturn):
    """A JobReturn that fails without a line of Hydra's own: the table has said it."""

    @property
    def return_value(self) -> Any:
        if self.status is not JobStatus.COMPLETED:
            raise self._return_value
        return self._return_value

    @return_value.setter
    def return_value(self, value: Any) -> None:
        self._return_value = value


def returned(job: Job, overrides: Sequence[str]) -> JobReturn:
    """The last validation loss, which an adaptive sweeper minimises."""
    value = job.metrics.get("loss") if job.done else JobFailed(f"{job.label}: {job.status}")
    status = JobStatus.COMPLETED if job.done else JobStatus.FAILED
    return Returned(overrides=list(overrides), status=status, working_dir=str(job.directory), _return_value=value)


def swept_keys(loader: Any, config: DictConfig) -> list[str]:
    """Keys with several values: on the command line, or of an adaptive sweeper."""
    typed = OverridesParser.create(config_loader=loader).parse_overrides(list(config.hydra.overrides.task))
    params = OmegaConf.select(config, "hydra.sweeper.params")
    more = list(params) if isinstance(params, (DictConfig, ListConfig)) else []
    return [override.get_key_element() for override in typed if override.is_sweep_override()] + more


def key_of(override: str) -> str:
    return override.partition("=")[0]


def without(overrides: Sequence[str], key: str) -> list[str]:
    return [override for override in overrides if key_of(override) != key]
