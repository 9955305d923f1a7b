"""However a run stops, going on ends with the weights of an undisturbed run, bit for bit.

The full product of what can differ is `full`; every pair of values of every two factors is in `make test`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from poslab.run import Run
from poslab.training import run_directory
from poslab.training.start import going_on
from tests.configuration import GPT, configuration
from tests.processes import train

STEPS = {"first": 6, "later": 14}  # of 18, ten an epoch; both after the checkpoint of two steps before
FACTORS: dict[str, tuple[Any, ...]] = {
    "how": ("kill", "term", "error"),
    "epoch": tuple(STEPS),
    "workers": (0, 2),
    "accumulate": (1, 2),
    "processes": (1, 2),
    "average": (False, True),
}
Case = tuple[Any, ...]


def pairwise() -> list[Case]:
    """Few cases that hold every pair of values of every two factors: greedily, those with most new pairs first."""
    everything = list(product(*FACTORS.values()))

    def pairs(case: Case) -> set[Any]:
        return set(combinations(enumerate(case), 2))

    left = {pair for case in everything for pair in pairs(case)}
    chosen = []
    while left:
        chosen.append(max(everything, key=lambda case: len(pairs(case) & left)))
        left -= pairs(chosen[-1])
    return chosen


PAIRWISE = pairwise()
CASES = [
    pytest.param(*case, id="-".join(map(str, case)), marks=() if case in PAIRWISE else pytest.mark.full)
    for case in product(*FACTORS.values())
]


def words(accumulate: int, processes: int, average: bool, dropout: float = 0.1) -> list[str]:
    own = [word for word in GPT if not word.startswith(("steps", "validate", "hardware"))]
    own += ["steps=18", "validate_every=4", f"model.dropout={dropout}", f"optim.ema={0.9 if average else 'null'}"]
    own += ["hardware=ddp" if processes > 1 else "hardware=auto", "hardware.accelerator=cpu"]
    return [*own, f"device_batch_size={32 // accumulate // processes}"]


def stop(how: str, at: int, trainer: Any) -> None:
    if trainer.global_step == at and how == "error":
        raise RuntimeError("power cut")
    if trainer.global_step == at:
        os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGTERM)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    (directory,) = (folder / "runs").iterdir()  # one for all processes, and the resumed run went on in it
    state = torch.load(directory / "checkpoints/last.ckpt", weights_only=True)
    assert state["global_step"] == 18
    return state["state_dict"]


def configured(folder: Path, *more: str) -> dict[str, Any]:
    return configuration(*more, f"runs={folder}/runs")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, torch.Tensor]]:
    """Weights of runs that nothing stopped, each trained once."""
    known: dict[Any, dict[str, torch.Tensor]] = {}

    def find(accumulate: int, processes: int, average: bool, dropout: float = 0.1) -> dict[str, torch.Tensor]:
        key = (accumulate, processes, average, dropout)
        if key not in known:
            folder = tmp_path_factory.mktemp("whole")
            assert train(configured(folder, *words(*key)), processes, folder / "log") == [0] * processes
            known[key] = weights(folder)
        return known[key]

    return find


@pytest.mark.parametrize([*FACTORS], CASES)
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(
    tmp_path: Path,
    undisturbed: Callable[..., dict[str, torch.Tensor]],
    how: str,
    epoch: str,
    workers: int,
    accumulate: int,
    processes: int,
    average: bool,
) -> None:
    line = [*words(accumulate, processes, average), f"workers={workers}"]
    codes = train(configured(tmp_path, *line), processes, tmp_path / "log", partial(stop, how, STEPS[epoch]))
    expected = {"kill": -signal.SIGKILL, "term": 128 + signal.SIGTERM, "error": 1}[how]
    assert codes[0] == expected and all(codes), (tmp_path / "log").read_text()
    again = configured(tmp_path, *line, "resume=auto")
    assert train(again, processes, tmp_path / "again") == [0] * processes, (tmp_path / "again").read_text()
    step = STEPS[epoch] if how == "term" else STEPS[epoch] - 2
    whole, found = undisturbed(accumulate, processes, average), weights(tmp_path)
    (log,) = (tmp_path / "runs").glob("*/train.log")
    assert f"going on after step {step}" in log.read_text()
    assert all(torch.equal(value, found[name]) for name, value in whole.items())


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_run_goes_on_with_another_number_of_processes(
    tmp_path: Path, undisturbed: Callable[..., dict[str, torch.Tensor]], before: int, after: int
) -> None:
    """No dropout, which is drawn for each process: what is left is the order of sums."""
    first, then = (words(1, processes, True, dropout=0.0) for processes in (before, after))
    assert train(configured(tmp_path, *first), before, tmp_path / "log", partial(stop, "kill", 14))[0] == -9
    assert train(configured(tmp_path, *then, "resume=auto"), after, tmp_path / "again") == [0] * after
    whole, found = undisturbed(1, before, True, 0.0), weights(tmp_path)
    assert max(float((value - found[name]).abs().max()) for name, value in whole.items()) < 1e-5


def test_few_cases_hold_all_pairs() -> None:
    seen = {pair for case in PAIRWISE for pair in combinations(enumerate(case), 2)}
    wanted = {pair for case in product(*FACTORS.values()) for pair in combinations(enumerate(case), 2)}
    assert seen == wanted and len(PAIRWISE) <= 10


def test_what_an_older_poslab_did_not_know_comes_from_the_command(tmp_path: Path) -> None:
    """Keys that are free to differ, where the choice is the same; what the run says of itself stays, null as well."""
    config = configuration(*GPT, f"runs={tmp_path}/runs", "logger=csv", "device_batch_size=null")
    directory = run_directory.make(config)
    old = yaml.safe_load((directory / "config.yaml").read_text())
    del old["logger"]["every"], old["workers"]
    (directory / "config.yaml").write_text(yaml.safe_dump(old | {"device_batch_size": None}))

    now = configuration(*GPT, f"runs={tmp_path}/runs", "logger.every=7", "workers=1", "device_batch_size=8")
    merged = going_on(Run(directory), now, [], saved=False).config
    assert (merged["logger"]["every"], merged["workers"], merged["device_batch_size"]) == (7, 1, None)
    assert merged["evaluate"] == old["evaluate"]

    other = configuration(*GPT, f"runs={tmp_path}/runs", "evaluate=length")
    assert going_on(Run(directory), other, [], saved=False).config["evaluate"] == old["evaluate"]
