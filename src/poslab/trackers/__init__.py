"""Where numbers go beside metrics.csv: the words of configs/logger, one file each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import Interrupted, UsageError
from ..optional import need

TRACKERS = ("wandb", "tensorboard", "trackio")


def check_installed(options: Mapping[str, Any]) -> None:
    """UsageError where a tracker that was asked for is not there."""
    for name in chosen(options):
        need(name, f"logger={name}", name)


@contextmanager
def tracking(config: dict[str, Any], directory: Path, main: bool) -> Iterator[list[Any]]:
    """A Lightning logger for each that was asked for, with `report(directory, step)`; none but in the main process.

    `directory` is the run's. Ends their records with the exit status of the block. The packages are imported here:
    each takes seconds.
    """
    options = config["logger"]
    modules = [(name, import_module(f".{name}", __name__)) for name in chosen(options) if main]
    trackers = [module.make(options[name], directory, config) for name, module in modules]
    code = 1
    try:
        yield trackers
        code = 0
    except Interrupted as stop:
        code = stop.code
        raise
    finally:
        for tracker in trackers:
            tracker.close(code)


def check_report(options: Mapping[str, Any]) -> None:
    """UsageError where a comparison cannot go to a tracker that was asked for."""
    check_installed(options)
    if others := [name for name in chosen(options) if name != "wandb"]:
        raise UsageError(
            f"logger={others[0]}: a comparison is report.html, and goes to logger=wandb besides; use that."
        )


def send_report(config: Mapping[str, Any], directory: Path) -> str:
    """Send the report of a comparison to wandb; returns a line that says where it is."""
    from .wandb import send_comparison

    settings = {key: config[key] for key in ("runs", "baseline", "variants", "evaluate")}
    return send_comparison(config["logger"]["wandb"], directory, settings)


def chosen(options: Mapping[str, Any]) -> list[str]:
    return [name for name in TRACKERS if options.get(name)]


def evaluation(report: Path) -> dict[str, float]:
    """{"length/1024/loss": 2.1} of the results.csv of a report on one run."""
    from ..results_file import Results

    return {
        f"{row['evaluator']}/{row['size']}/{row['metric']}": float(row["value"])
        for row in Results(report / "results.csv").read()
        if row["status"] == "ok" and "@" not in row["metric"]
    }
