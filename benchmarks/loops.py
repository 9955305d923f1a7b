"""Lightning's loop as `train.py` runs it, and a loop written by hand that does the same to the weights."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from poslab.build import build_data, build_model
from poslab.evaluators.timing import loss
from poslab.tasks.base import Task
from poslab.training import fit
from poslab.training.optimizer import make_optimizer, warmup_cosine
from poslab.training.plan import plan

from .models import configs
from .pairs import Contestant

WORDS = ["model=gpt", "model.dim=32", "model.depth=2", "global_batch_size=4", "evaluate=none", "evaluate.batch_size=4"]
WORDS += ["hardware=cpu", "+hardware.limit_val_batches=1"]


def contestants(steps: int) -> tuple[Contestant, Contestant]:
    """Both train the same small GPT for so many steps; each run gives the mean seconds of one."""
    found = configs().compose([*WORDS, f"steps={steps}", f"validate_every={steps // 2}"], resolve=True)
    config = found.values | {"choices": found.choices, "overrides": [], "multirun": False}
    data = build_data(config)
    return lambda: lightning(config), lambda: bare(config, data)


def lightning(config: dict[str, Any]) -> float:
    """Bar, metrics.csv, checkpoints, schedule, clipping, a validation in the middle."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(patch.object(fit, "log_to", terminal))
        stack.enter_context(patch.object(fit.log, "handlers", []))  # of whoever trained before in this process
        starts = stack.enter_context(clock())
        fit.fit(config | {"runs": folder, "reports": folder})
    return mean_period(starts)


def bare(config: dict[str, Any], data: Any) -> float:
    """Batches in the same order, forward, backward, clipping, AdamW, schedule."""
    torch.manual_seed(config["seed"])
    model, optim, order = build_model(config, data), config["optim"], plan(config, len(data.train), world=1)
    optimizer = make_optimizer(model, optim)
    scheduler = LambdaLR(optimizer, warmup_cosine(order.steps, optim["warmup"], optim["final"]))
    starts = []
    for index in order:
        starts.append(time.perf_counter())
        batch = data.train[index]
        loss(model, batch["inputs"], batch["targets"]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), optim["clip"])
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return mean_period(starts)


@contextmanager
def clock() -> Iterator[list[float]]:
    """The times at which training steps start."""
    starts: list[float] = []
    original = Task.on_train_batch_start

    def tick(task: Task, batch: Any, batch_idx: int) -> None:
        starts.append(time.perf_counter())
        original(task, batch, batch_idx)

    with patch.object(Task, "on_train_batch_start", tick):
        yield starts


def mean_period(starts: list[float]) -> float:
    return (starts[-1] - starts[0]) / (len(starts) - 1)


def terminal(directory: Path, main: bool) -> Console:
    """A terminal to draw the bar on, which nobody sees."""
    return Console(file=io.StringIO(), force_terminal=True)
