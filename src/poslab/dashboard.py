"""A wandb workspace that compares encodings: python -m poslab.dashboard ENTITY/PROJECT."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .errors import UsageError
from .files import write
from .optional import need
from .trackers.key import has_key

SPECIFICATION = Path("reports/dashboard.json")


def main(arguments: list[str] | None = None) -> int:
    """Make the workspace and say where it is; 2 with a sentence where that cannot be."""
    parser = argparse.ArgumentParser("python -m poslab.dashboard", description=__doc__)
    parser.add_argument("project", help="ENTITY/PROJECT on wandb")
    parser.add_argument("--sweep", help="only the runs of this sweep, sweep=NAME")
    parser.add_argument("--offline", action="store_true", help=f"write its specification to {SPECIFICATION} instead")
    options = parser.parse_args(arguments)
    try:
        print(make(options.project, options.sweep, options.offline))
    except UsageError as error:
        print(f"poslab: {error}", file=sys.stderr)
        return 2
    return 0


def make(project: str, sweep: str | None, offline: bool) -> str:
    """A line that says where the workspace is, or its specification where it is `offline` or wandb has no key here."""
    entity, slash, name = project.partition("/")
    if not (entity and slash and name) or "/" in name:
        raise UsageError(f"'{project}' is not ENTITY/PROJECT, as in the address of a project on wandb.")
    need("wandb_workspaces", "python -m poslab.dashboard", "wandb")
    dashboard = workspace(entity, name, sweep)
    if offline or not has_key():
        SPECIFICATION.parent.mkdir(exist_ok=True)
        write(SPECIFICATION, dashboard._to_model().model_dump_json(by_alias=True, indent=2) + "\n")
        why = "" if offline else " wandb has no key here; after wandb login the same command makes the workspace."
        return f"specification: {SPECIFICATION}.{why}"
    dashboard.save()
    return f"workspace: {dashboard.url}"


def workspace(entity: str, project: str, sweep: str | None) -> Any:
    """Curves and bars with a line or a bar for each encoding, its seeds averaged, and the tables of the reports."""
    import wandb_workspaces.reports.v2 as panels
    import wandb_workspaces.workspaces as ws

    encoding = panels.Config("pos")

    def curve(metric: str, title: str, log_y: bool = False) -> Any:
        return panels.LinePlot(
            title=title, x="trainer/global_step", y=[metric], log_y=log_y, groupby=encoding,
            groupby_aggfunc="mean", groupby_rangefunc="stddev", title_x="optimiser steps", title_y=title,
        )  # fmt: skip

    def bars(metric: str, title: str) -> Any:
        return panels.BarPlot(
            title=title, metrics=[metric], groupby=encoding, groupby_aggfunc="mean", groupby_rangefunc="stddev"
        )

    sections = {
        "Which encoding learns best": [
            bars("val/loss", "validation loss, nats"),
            curve("val/loss", "validation loss, nats"),
            curve("val/accuracy", "validation accuracy"),
            curve("train/loss", "training loss, nats", log_y=True),
        ],
        "At sizes never trained on": [panels.WeavePanelSummaryTable(table_name="evaluation/results")],
        "What it costs": [
            bars("train/samples_per_second", "training samples a second"),
            bars("train/mfu", "model FLOPs utilisation"),
        ],
        "Is the training sound": [
            curve("train/gradient_norm", "gradient norm"),
            curve("train/lr", "learning rate"),
        ],
    }
    return ws.Workspace(
        entity=entity,
        project=project,
        name=f"Encodings of {sweep}" if sweep else "Encodings",
        sections=[ws.Section(name=name, panels=each, is_open=True) for name, each in sections.items()],
        settings=ws.WorkspaceSettings(x_axis="trainer/global_step", max_runs=100),
        runset_settings=ws.RunsetSettings(
            filters=ws.And(ws.Metric("group") == sweep) if sweep else "",
            groupby=[ws.Config("pos")],
            pinned_columns=["config:pos", "config:model", "config:data", "config:seed", "summary:val/loss.min"],
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
