"""A search tunes each encoding with equal care, and goes on where it was stopped."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus

import poslab
from poslab.errors import JobFailed, UsageError
from poslab.sweep.launch import Sweep
from poslab.sweep.search import search
from tests.test_sweeps import DDP, saved, sweeping, wait_for

WORDS = ["pos=rope,none", "optim.lr=tag(log,interval(1e-4,1))"]


class Answers(Sweep):
    """A sweep whose jobs answer at once: `loss` of their overrides."""

    def __init__(self, directory: Path, loss: Callable[[dict[str, str]], float | None]) -> None:
        self.directory, self.loss = directory, loss
        self.batches: list[list[Sequence[str]]] = []

    def launch(self, overrides: Sequence[Sequence[str]], first: int, alone: bool = True) -> list[JobReturn]:
        assert first == sum(map(len, self.batches)) and not alone
        self.batches.append(list(overrides))
        losses = [self.loss(dict(word.split("=") for word in words)) for words in overrides]
        states = [JobStatus.FAILED if loss is None else JobStatus.COMPLETED for loss in losses]
        return [JobReturn(status=state, _return_value=loss) for state, loss in zip(states, losses)]

    def tried(self, pos: str) -> list[str]:
        return [words[1] for batch in self.batches for words in batch if words[0] == f"pos={pos}"]


def run(sweep: Answers, words: list[str] = WORDS, trials: int = 15, sampler: str = "tpe", together: int = 1) -> Answers:
    search(None, words, SimpleNamespace(sweep=sweep), trials, together, sampler, seed=0)
    return sweep


def bowl(words: dict[str, str]) -> float:
    """Least at 0.01 for rope and at 0.1 for none."""
    return (math.log10(float(words["optim.lr"])) + (2 if words["pos"] == "rope" else 1)) ** 2


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_each_encoding_finds_its_own_best_in_equally_many_trials(
    tmp_path: Path, sampler: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = run(Answers(tmp_path, bowl), sampler=sampler)
    assert all(len(batch) == 2 for batch in sweep.batches)  # side by side
    assert len(sweep.tried("rope")) == len(sweep.tried("none")) == 15
    assert sweep.tried("rope")[0] == sweep.tried("none")[0]  # from the same draw
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip().startswith("pos=")]
    for pos, least in (("rope", 0.01), ("none", 0.1)):
        lr, loss, trials = next(row[1:] for row in rows if row[0] == f"pos={pos}")
        assert abs(math.log10(float(lr.partition("=")[2]) / least)) < 0.35, (pos, lr)
        assert float(loss) == pytest.approx(bowl({"pos": pos, "optim.lr": lr.partition("=")[2]}), abs=1e-4)
        assert trials == "15"


def test_a_search_that_was_stopped_finishes_what_ran_and_proposes_nothing_twice(tmp_path: Path) -> None:
    def stopped(words: dict[str, str]) -> float:
        if len(first.batches) == 3:
            raise SystemExit(130)
        return bowl(words)

    first = Answers(tmp_path, stopped)
    with pytest.raises(SystemExit):
        run(first, trials=5)
    second = run(Answers(tmp_path, bowl), trials=5)
    assert second.batches[0] == first.batches[2]
    assert len(second.batches) == 3  # the one that was cut short and two that were left
    tried = first.tried("rope")[:2] + second.tried("rope")
    assert len(set(tried)) == len(tried) == 5
    assert not run(Answers(tmp_path, bowl), trials=5).batches  # nothing is left
    assert len(run(Answers(tmp_path, bowl), trials=7).batches) == 2


def test_a_failed_trial_leaves_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(words: dict[str, str]) -> float | None:
        return bowl(words) if words["pos"] == "rope" else next(endings)

    endings = cycle([None, math.nan, math.inf, -math.inf])

    with pytest.raises(JobFailed):
        run(Answers(tmp_path, fails), trials=4)
    out = capsys.readouterr().out
    assert "none: every trial failed" in out and "4, 4 failed" in out and "pos=rope" in out


def test_whole_numbers_are_searched_and_trials_run_together(tmp_path: Path) -> None:
    words = ["model.depth=int(interval(1,6))", "seed=3"]
    sweep = run(Answers(tmp_path, lambda words: float(words["model.depth"])), words, trials=6, together=4)
    assert [len(batch) for batch in sweep.batches] == [4, 2]
    assert all(words[0] == "seed=3" and int(words[1].partition("=")[2]) in range(1, 7) for words in sweep.batches[0])


@pytest.mark.parametrize(
    ("words", "sampler", "sentence"),
    [
        (["pos=rope,none"], "tpe", "nothing to search; give a key an interval"),
        (WORDS, "best", "sampler=best: choose one of tpe, gp, random"),
        (["optim.lr=tag(log,interval(0.0,1.0))"], "tpe", r"optim.lr=tag\(log,interval\(0.0,1.0\)\): .*positive|low"),
    ],
)
def test_what_cannot_be_searched_is_a_sentence(tmp_path: Path, words: list[str], sampler: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        run(Answers(tmp_path, bowl), words, sampler=sampler)


def test_a_launcher_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="choose hydra/launcher=local"):
        search(None, WORDS, object(), 1, 1, "tpe", 0)


def test_a_search_of_jobs_with_two_processes_goes_on_after_ctrl_c(tmp_path: Path) -> None:
    words = [*DDP, "hydra/sweeper=search", "hydra.sweeper.trials=2", "optim.lr=tag(log,interval(1e-3,1e-1))"]
    words += ["steps=300", "validate_every=60", "sweep=found"]
    with sweeping(tmp_path, *words) as process:
        wait_for(saved(tmp_path, "found", "2 0"))
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    with sweeping(tmp_path, *words) as process:
        assert process.wait(300) == 0, (tmp_path / "out").read_text()
    runs = [poslab.load_run(path.parent) for path in sorted((tmp_path / "runs/sweeps/found").glob("*/config.yaml"))]
    assert len(runs) == 2 and all(run.summary["status"] == "complete" for run in runs)
    rates: list[Any] = [run.config["optim"]["lr"] for run in runs]
    assert rates[0] != rates[1] and all(1e-3 <= rate <= 1e-1 for rate in rates)
    assert "going on after step" in (runs[0].directory / "train.log").read_text()
    best = min(runs, key=lambda run: run.summary["last"]["loss"])
    assert f"optim.lr={best.config['optim']['lr']:.6g}" in (tmp_path / "out").read_text().partition("best")[2]
