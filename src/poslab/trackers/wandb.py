"""Weights & Biases: one run a job, found again when it goes on, with its report at the end."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections import defaultdict
from dataclasses import astuple
from pathlib import Path
from statistics import mean
from typing import Any

import wandb
from lightning.pytorch.loggers import WandbLogger

from ..files import write
from ..results_file import COLUMNS, Results, Row
from ..typed_results import typed
from .key import has_key
from .names import flat, sweep_of

log = logging.getLogger("poslab")

BEST = {"val/loss": "min", "val/bits_per_byte": "min", "val/accuracy": "max"}  # what a table of runs shows of them
STEP = "trainer/global_step"  # the x axis that Lightning gives every metric


class Tracker(WandbLogger):
    """Lightning's logger, and what happens when training is over."""

    def report(self, directory: Path, step: int) -> None:
        send(self.experiment, directory)

    def close(self, code: int) -> None:
        """End the run of this job, failed if it failed, so that the next job of a sweep opens its own."""
        if wandb.run is not None:
            wandb.finish(exit_code=code)


def make(options: dict[str, Any], directory: Path, config: dict[str, Any]) -> Tracker:
    """Offline, with one line that says so, where there is no key. A run that goes on does so in its own record."""
    group = options["group"] or sweep_of(directory)
    run = begin(options | {"group": group}, directory, config, id=identifier(directory), resume="allow")
    if run.settings.mode == "offline":
        log.info(how_to_send(directory))
    tracker = Tracker(experiment=run)
    for name, best in BEST.items():
        tracker.experiment.define_metric(name, summary=best, step_metric=STEP, step_sync=True)
    return tracker


def begin(options: dict[str, Any], directory: Path, config: dict[str, Any], **more: Any) -> Any:
    """A run that keeps its files in `directory` and has its name."""
    mode = mode_of(options)
    if mode == "offline":
        os.environ["WANDB_MODE"] = mode  # for wandb's own reports on itself, which look at nothing else
    return wandb.init(
        project=options["project"],
        entity=options["entity"],
        group=options["group"],
        tags=list(options["tags"]),
        name=directory.name,
        dir=directory,
        mode=mode,
        config=flat(config),
        **more,
    )


def mode_of(options: dict[str, Any]) -> str:
    """online or offline: what logger.wandb.mode says, or whether there is a key."""
    os.environ.setdefault("WANDB_SILENT", "true")
    mode = options["mode"]
    if mode == "auto":
        asked = os.environ.get("WANDB_MODE")
        mode = "offline" if asked in ("offline", "dryrun") or not has_key() else "online"
    return str(mode)


def how_to_send(directory: Path) -> str:
    return f"wandb: recording offline, send it later with: wandb sync {directory / 'wandb' / 'offline-run-*'}"


def identifier(directory: Path) -> str | None:
    """The id of this run's record, kept in its directory; None where a sweep of wandb's gave it one."""
    if "WANDB_RUN_ID" in os.environ:
        return None
    path = directory / "wandb" / "id.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write(path, secrets.token_hex(4))
    return path.read_text().strip()


def send_comparison(options: dict[str, Any], directory: Path, config: dict[str, Any]) -> str:
    """A run of its own, of the type `report`, for the report in `directory`; returns a line that says where it is."""
    run = begin(options, directory, config, job_type="report")
    send(run, directory)
    where = run.url
    run.finish()
    return f"wandb:   {where}" if where else how_to_send(directory)


def send(run: Any, report: Path) -> None:
    """Every number of a report as a table, its curves over sizes as plots, and its directory as an artifact."""
    rows = Results(report / "results.csv").read()
    plots = {f"evaluation/{name}": plot for name, plot in curves(rows).items()}
    table = wandb.Table(columns=list(COLUMNS), data=[list(astuple(typed(row))) for row in rows])
    run.log(plots | {"evaluation/results": table})
    artifact = wandb.Artifact(re.sub(r"[^\w.-]", "_", f"report-{report.name}"), type="report")
    for path in sorted(report.rglob("*")):
        if path.is_file() and not {"wandb", "samples"} & {*path.relative_to(report).parts}:
            artifact.add_file(str(path), name=path.relative_to(report).as_posix())
    run.log_artifact(artifact)


def curves(rows: list[Row]) -> dict[str, Any]:
    """ "length/loss" -> a plot of the value against the size, a line an encoding, its seeds averaged."""
    values: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if row["status"] == "ok" and "@" not in row["metric"] and row["size"].isdecimal():
            encoding = f"{row['pos']} {row['variant']}".strip()
            values[f"{row['evaluator']}/{row['metric']}"][encoding][int(row["size"])].append(float(row["value"]))
    return {
        name: wandb.plot.line_series(
            xs=[sorted(line) for line in lines.values()],
            ys=[[mean(line[size]) for size in sorted(line)] for line in lines.values()],
            keys=[*lines],
            title=name,
            xname="size",
        )
        for name, lines in values.items()
        if any(len(line) > 1 for line in lines.values())
    }
