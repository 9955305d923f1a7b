"""Kill one run again and again, at random moments: its curve and its weights are those of an undisturbed run.

    python -m tests.soak                            fifty times kill -9
    python -m tests.soak --kills 10 --processes 2   one of two processes each time

Not part of `make test`. Each attempt is a forked process that says resume=auto; the moment of its death is drawn from
the time that an attempt may take, so that it falls into start-up, a step, a validation, or the writing of a checkpoint.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from poslab.run import Run
from tests.configuration import GPT, configuration
from tests.processes import start, train, wait

TIMES = ("train/samples_per_second",)  # columns of metrics.csv that no two runs share


def curve(run: Run) -> list[dict[str, str]]:
    rows = csv.DictReader((run.directory / "metrics.csv").open())
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def weights(run: Run) -> dict[str, torch.Tensor]:
    return torch.load(run.checkpoint(), weights_only=True)["state_dict"]


def only_run(folder: Path) -> Run:
    (directory,) = (folder / "runs").iterdir()
    return Run(directory)


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--longest", type=float, default=6.0, help="seconds that an attempt lives at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="poslab-soak-"))
    words = [word for word in GPT if not word.startswith(("steps", "validate", "hardware"))]
    words += [f"steps={options.steps}", "validate_every=10", "model.dropout=0.1", "optim.ema=0.99"]
    words += ["hardware=ddp" if options.processes > 1 else "hardware=auto", "hardware.accelerator=cpu"]

    def configured(name: str, *more: str) -> dict[str, Any]:
        return configuration(*words, *more, f"runs={folder / name}/runs")

    whole, killed = folder / "whole", folder / "killed"
    for place in (whole, killed):
        place.mkdir()
    assert train(configured("whole"), options.processes, whole / "log", seconds=3600) == [0] * options.processes
    config = configured("killed", "resume=auto")
    where: Counter[str] = Counter()
    for number in range(1, options.kills + 1):
        children = start(config, options.processes, killed / "log")
        time.sleep(draw.uniform(0.1, options.longest))
        os.kill(draw.choice(children), signal.SIGKILL)
        codes = wait(children, killed / "log")
        where["killed" if -signal.SIGKILL in codes else "had finished"] += 1
        if list((killed / "runs").glob("*")):
            run = only_run(killed)
            last = run.directory / "checkpoints/last.ckpt"
            step = torch.load(last, weights_only=True)["global_step"] if last.exists() else 0
            left = [path.name for path in (run.directory / "checkpoints").iterdir() if path.suffix != ".ckpt"]
            print(
                f"kill {number:3}: last checkpoint of step {step:,}{', half of ' + left[0] if left else ''}", flush=True
            )
            where["while a checkpoint was written"] += bool(left)
    assert train(config, options.processes, killed / "log", seconds=3600) == [0] * options.processes
    one, other = only_run(whole), only_run(killed)
    same_weights = all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())
    same_curve = curve(one) == curve(other)
    verdict = {"curve": same_curve, "weights": same_weights, "best": one.summary["best"] == other.summary["best"]}
    print(json.dumps(where | verdict | {"rows": len(curve(one)), "directory": str(folder)}))
    return 0 if all(verdict.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
