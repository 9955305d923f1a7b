"""Measure runs, keep the numbers, write the report: what eval.py and the end of a training call."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ..errors import UsageError
from ..evaluators import EVALUATORS
from ..evaluators.groups import Comparison
from ..evaluators.processes import Processes
from ..evaluators.published import load_published
from ..evaluators.report import Section
from ..evaluators.samples import Samples
from ..evaluators.table import make_console, print_section, progress
from ..results_file import Results
from ..trackers import check_report, chosen, send_report
from .jobs import encoding, prepare
from .launch import launch
from .runs import find_runs, report_name, words_of
from .write import PAGE, write

__all__ = ["check_options", "compare", "find_runs", "report_name"]


def compare(
    config: Mapping[str, Any],
    processes: Processes | None = None,
    *,
    quiet: bool = False,
    command: str | None = None,
    page: bool = True,
) -> Path:
    """Measure what is missing of all runs in `config["runs"]`, write the report, print its tables.

    Args:
        config: the keys of configs/eval.yaml: runs, report, reports, baseline, published, variants, evaluate,
            hardware, logger.
        processes: those that measure together, where they run already; None starts them.
        quiet: print nothing.
        command: how the report says it was made; None is the command line of this process.
        page: write report.html too, 5 MB.

    Returns the directory of the report. results.csv keeps every measurement ever made for it;
    report.md shows the runs of this call, at all sizes measured under the protocol of this call.
    Raises UsageError where nothing can be measured; a size that fails is a row that says so.
    """
    options, trackers = config["evaluate"], config.get("logger") or {}
    check_options(options)
    check_report(trackers)
    runs, notes = find_runs(config["runs"])
    processes = processes or launch(config["hardware"])
    quiet = quiet or not processes.main
    console = make_console()
    directory = Path(config["reports"]) / (config.get("report") or report_name(config["runs"]))
    results, samples = Results(directory / "results.csv"), Samples(directory / "samples")
    try:
        published = load_published(config.get("published"))
        jobs = prepare(runs, options, config.get("variants") or {}, processes.device, notes)
        done = results.final()
        missing = processes.agree([job.missing(*done, samples) for job, _ in jobs])
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not jobs:
        raise UsageError(f"runs={words_of(config['runs'])}: nothing to measure. {' '.join(notes)}")
    baseline = choose_baseline(config.get("baseline"), sorted({encoding(job) for job, _ in jobs}))
    if not quiet:
        for note in notes:
            console.print(Text(f"note: {note}"), soft_wrap=True)
    with progress(console, sum(map(len, missing)), quiet) as bar:
        for (job, _), sizes in zip(jobs, missing, strict=True):
            job.run(sizes, results, samples, bar, processes)
    if processes.main:
        if command is None:
            words = [word for word in sys.argv[1:] if not word.startswith("hydra.")]  # where Hydra keeps its files
            command = f"python {shlex.join([Path(sys.argv[0]).name, *words])}"
        comparison = Comparison(baseline, samples, options["bootstrap"], options["confidence"])
        sections = write(directory, jobs, results.read(), comparison, options, notes, command, page, published)
        if not quiet:
            show(console, directory, sections, PAGE if page else "report.md")
        if chosen(trackers):
            console.print(Text(send_report(config, directory)), soft_wrap=True)
    processes.agree(None)  # nobody leaves before the report is there
    return directory


def check_options(options: Mapping[str, Any]) -> None:
    """UsageError for options that mean nothing."""
    if options["skip"] or not any(name in options for name in EVALUATORS):
        raise UsageError("There is nothing to measure: use evaluate=auto, or some of its words, evaluate=[length].")
    if options["checkpoint"] not in ("last", "best"):
        raise UsageError(f"evaluate.checkpoint={options['checkpoint']} is not one of last, best.")
    if not 0 < options["confidence"] < 1:
        raise UsageError(f"evaluate.confidence={options['confidence']} is a probability: 0.95, say.")
    if options["bootstrap"] < 0:
        raise UsageError(
            f"evaluate.bootstrap={options['bootstrap']} counts resamples: 2000, say, or 0 for no interval."
        )


def choose_baseline(asked: str | None, encodings: list[str]) -> str | None:
    """What was asked for, or `none` where it was trained. UsageError where there is no such encoding."""
    if asked is None:
        return "none" if "none" in encodings else None
    if not any(asked == each or asked.startswith(f"{each} ") for each in encodings):
        raise UsageError(f"baseline={asked} is not among the encodings of these runs: {', '.join(encodings)}.")
    return asked


def show(console: Console, directory: Path, sections: list[Section], report: str) -> None:
    """The tables, and where the rest is."""
    for section in sections:
        print_section(console, section)
    console.print(Text(f"numbers: {directory / 'results.csv'}\nreport:  {directory / report}"), soft_wrap=True)
