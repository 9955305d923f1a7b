"""Search for the best values in intervals: Optuna proposes, jobs answer, and all is kept in the sweep's directory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.core.utils import JobStatus
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import JobFailed, UsageError
from ..evaluators.table import make_console
from ..files import shown
from ..lock import held
from .launch import Sweep, key_of


def search(
    loader: Any, typed: Sequence[str], launcher: Any, trials: int, together: int, sampler: str, seed: int
) -> None:
    """One search for each combination of what is listed, such as pos=rope,alibi, over the intervals beside it.

    All searches start from the same draws and take equally many trials, so that each encoding is tuned with equal
    care. Started again under its name, it goes on: what was running is finished, what is complete counts.

    Raises UsageError where there is nothing to search, and JobFailed, at the end, where a job failed.
    """
    sweep = getattr(launcher, "sweep", None)
    if not isinstance(sweep, Sweep):
        raise UsageError("hydra/sweeper=search keeps what it learned: choose hydra/launcher=local or slurm.")
    overrides = OverridesParser.create(config_loader=loader).parse_overrides(list(typed))
    space = {each.get_key_element(): distribution(each) for each in overrides if each.is_interval_sweep()}
    if not space:
        raise UsageError(
            "hydra/sweeper=search: nothing to search; give a key an interval, 'optim.lr=tag(log,interval(1e-4,1e-2))'."
        )
    combinations = BasicSweeper.split_arguments([each for each in overrides if not each.is_interval_sweep()], None)[0]
    listed = {each.get_key_element() for each in overrides if each.is_discrete_sweep()}
    place, console = shown(sweep.directory), make_console()
    (sweep.directory / "logs").mkdir(parents=True, exist_ok=True)
    busy = f"{place}: process {{process}} is searching here; wait for it, or choose another sweep=NAME."
    with held(sweep.directory / "logs" / "search.lock", busy):
        searches = []
        for words in combinations:
            label = " ".join(word for word in words if key_of(word) in listed) or "all"
            study = open_study(sweep.directory, label, sampler, seed, together)
            searches.append(Search(label, words, space, study, trials, together))
        number = f"{len(searches)} searches" if len(searches) > 1 else "one search"
        before = sum(len(each.study.trials) for each in searches)
        console.print(f"{number} of {trials} trials{f', {before} asked for before' if before else ''}, in {place}")
        first, failed = 0, 0
        while asked := [(each, trial) for each in searches for trial in each.ask()]:
            returned = sweep.launch([each.words(trial) for each, trial in asked], first, alone=False)
            for (each, trial), job in zip(asked, returned):
                each.tell(trial, job)
                failed += job.status is not JobStatus.COMPLETED
            first += len(asked)
    conclude(console, searches, sweep.directory)
    if failed:
        raise JobFailed(f"{failed} jobs of the search failed")


@dataclass
class Search:
    """One combination of what is listed, and the Optuna study of its trials."""

    label: str
    fixed: list[str]  # overrides
    space: dict[str, Any]  # key -> distribution
    study: Any
    trials: int
    together: int

    def ask(self) -> list[Any]:
        """The next trials, first those that an earlier start left unfinished; none where all are done."""
        running = self.study.get_trials(states=(TrialState.RUNNING,))
        if unfinished := [trial for trial in running if trial.params.keys() == self.space.keys()]:
            return unfinished  # one without values was killed as it was asked for: it counts, and no job has run it
        left = self.trials - len(self.study.trials)
        return [self.study.ask(self.space) for _ in range(min(self.together, left))]

    def words(self, trial: Any) -> list[str]:
        """The overrides of its job; six digits of a number, which is enough for any rate and short enough to read."""
        found = {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in trial.params.items()}
        return [*self.fixed, *(f"{key}={value}" for key, value in found.items())]

    def tell(self, trial: Any, returned: Any) -> None:
        """The last validation loss; a job that failed or whose loss is no number is a failed trial."""
        loss = returned.return_value if returned.status is JobStatus.COMPLETED else None
        if loss is None or not math.isfinite(loss):
            self.study.tell(trial.number, state=TrialState.FAIL)
        else:
            self.study.tell(trial.number, loss)

    @property
    def best(self) -> Any:
        """The trial of the lowest loss, None where all failed."""
        complete = self.study.get_trials(states=(TrialState.COMPLETE,))
        return min(complete, key=lambda trial: trial.value, default=None)


def open_study(directory: Path, name: str, sampler: str, seed: int, together: int) -> Any:
    """The study of that name in the sweep's journal, a file that only grows and survives whatever kills its writer."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(directory / "search.journal")))
    study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
    # a generator that began anew at each start would propose its first values again
    study.sampler = make_sampler(sampler, seed + len(study.trials), together)
    return study


def distribution(override: Override) -> Any:
    """Optuna's word for interval(a,b); int(interval(a,b)) means whole numbers, tag(log,...) a logarithmic scale."""
    interval = override.value()
    assert isinstance(interval, IntervalSweep)
    low, high, log = interval.start, interval.end, "log" in interval.tags
    try:
        if isinstance(low, int) and isinstance(high, int):
            return optuna.distributions.IntDistribution(low, high, log=log)
        return optuna.distributions.FloatDistribution(float(low), float(high), log=log)  # type: ignore[arg-type]
    except ValueError as error:
        raise UsageError(f"{override.input_line}: {error}") from error


def make_sampler(name: str, seed: int, together: int) -> Any:
    samplers = {
        # trials that are proposed together must not all be the same good guess
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, constant_liar=together > 1),
        "gp": lambda: optuna.samplers.GPSampler(seed=seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
    }
    if name not in samplers:
        raise UsageError(f"hydra.sweeper.sampler={name}: choose one of {', '.join(samplers)}.")
    return samplers[name]()


def conclude(console: Console, searches: Sequence[Search], directory: Path) -> None:
    """A row for each search: its best values, their loss, and how many trials that took."""
    table = Table(box=box.SIMPLE)
    table.add_column("search")
    table.add_column("best")
    table.add_column("validation loss", justify="right")
    table.add_column("trials", justify="right")
    for each in searches:
        best, done = each.best, each.study.trials
        failed = sum(trial.state is TrialState.FAIL for trial in done)
        values = " ".join(each.words(best)[len(each.fixed) :]) if best else "none: every trial failed"
        count = f"{len(done)}, {failed} failed" if failed else f"{len(done)}"
        table.add_row(*map(Text, (each.label, values, f"{best.value:.4f}" if best else "", count)))
    console.print(table, end="")
    console.print(Text(f"compare: python eval.py runs='{shown(directory)}/*'"), soft_wrap=True)
