"""Measure runs, keep the numbers, write the report: what eval.py and the end of a training call."""

from __future__ import annotations

import glob
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from .errors import UsageError
from .evaluators import EVALUATORS, Evaluator, Length, Resolution
from .evaluators.base import size_word
from .evaluators.figures import draw
from .evaluators.groups import Subject, flatten, make_groups
from .evaluators.measure import Job, one_line
from .evaluators.report import Provenance, Section, write_report
from .evaluators.results import KEY, Results, Row
from .evaluators.table import make_console, print_groups, progress
from .run import Run, load_run
from .variants import variants_of


def compare(config: Mapping[str, Any], *, quiet: bool = False, command: str | None = None) -> Path:
    """Measure what is missing of all runs in `config["runs"]`, write the report, print its tables.

    Args:
        config: the keys of configs/eval.yaml: runs, report, reports, device, variants, evaluate.
        quiet: print nothing.
        command: how the report says it was made; None is the command line of this process.

    Returns the directory of the report. results.csv keeps every measurement ever made for it;
    report.md shows the runs of this call, at all sizes measured under the protocol of this call.
    Raises UsageError where nothing can be measured; a size that fails is a row that says so.
    """
    options = config["evaluate"]
    check_options(options)
    device = choose_device(config["device"])
    console = make_console()
    runs, notes = find_runs(config["runs"])
    directory = Path(config["reports"]) / (config.get("report") or report_name(config["runs"]))
    results = Results(directory / "results.csv")
    try:
        jobs = prepare(runs, options, config.get("variants") or {}, device, notes)
        missing = [job.missing(results.final()) for job, _ in jobs]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not jobs:
        raise UsageError(f"runs={words_of(config['runs'])}: nothing to measure. {' '.join(notes)}")
    if not quiet:
        for note in notes:
            console.print(Text(f"note: {note}"), soft_wrap=True)
    with progress(console, sum(map(len, missing)), quiet) as bar:
        for (job, _), sizes in zip(jobs, missing, strict=True):
            job.run(sizes, results, bar)
    if command is None:
        words = [word for word in sys.argv[1:] if not word.startswith("hydra.")]  # where Hydra keeps its files
        command = f"python {shlex.join([Path(sys.argv[0]).name, *words])}"
    sections = report(directory, jobs, results.read(), options, notes, command)
    if not quiet:
        show(console, directory, sections)
    return directory


def check_options(options: Mapping[str, Any]) -> None:
    """UsageError for options that mean nothing."""
    if options["skip"]:
        raise UsageError("evaluate.skip=true leaves nothing to measure: use evaluate=auto.")
    if options["checkpoint"] not in ("last", "best"):
        raise UsageError(f"evaluate.checkpoint={options['checkpoint']} is not one of last, best.")
    if not 0 < options["confidence"] < 1:
        raise UsageError(f"evaluate.confidence={options['confidence']} is a probability: 0.95, say.")
    if options["bootstrap"] < 0:
        raise UsageError(
            f"evaluate.bootstrap={options['bootstrap']} counts resamples: 2000, say, or 0 for no interval."
        )


def choose_device(word: str) -> torch.device:
    """auto is CUDA where there is one. UsageError where the device asked for is missing."""
    if word not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device={word} is not one of auto, cpu, cuda.")
    if word == "cuda" and not torch.cuda.is_available():
        raise UsageError("device=cuda, and torch finds no such device here: leave it out, or say device=cpu.")
    return torch.device("cuda" if word != "cpu" and torch.cuda.is_available() else "cpu")


def words_of(runs: str | Sequence[str]) -> list[str]:
    return [runs] if isinstance(runs, str) else [str(word) for word in runs]


def find_runs(runs: str | Sequence[str]) -> tuple[list[Run], list[str]]:
    """Run directories, each once, and a note on what else a glob matched. UsageError where there is none."""
    found: dict[Path, Run] = {}
    notes = []
    for word in words_of(runs):
        path = Path(word).expanduser()
        if path.exists() or not glob.has_magic(word):
            if path.is_dir() and not (path / "config.yaml").exists() and list(path.glob("*/config.yaml")):
                raise UsageError(f"{word} is not a run but holds some: runs='{word.rstrip('/')}/*'.")
            found.setdefault(path.resolve(), load_run(path))
            continue
        matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
        inside = [match for match in matches if (match / "config.yaml").exists()]
        if not inside:
            what = f"{len(matches)} paths, and none is a run directory" if matches else "nothing"
            raise UsageError(f"runs='{word}' matches {what}: give directories that hold a config.yaml.")
        if len(inside) < len(matches):
            notes.append(f"{len(matches) - len(inside)} of {len(matches)} matches of {word} are no runs, and ignored.")
        for match in inside:
            found.setdefault(match.resolve(), load_run(match))
    return list(found.values()), notes


def report_name(runs: str | Sequence[str]) -> str:
    """The same name for the same words: a run's own, `demo` for runs/sweeps/demo/*, `vit` for runs/*_vit_*."""
    names = [_slug(word) for word in words_of(runs)]
    name = "+".join(dict.fromkeys(names))
    if len(name) > 100:  # file systems end at 255 bytes
        name = f"{names[0][:60]}-and-{len(names) - 1}-more-{sha256(name.encode()).hexdigest()[:8]}"
    return name


def _slug(word: str) -> str:
    if not glob.has_magic(word) or Path(word).exists():
        return Path(word).expanduser().resolve().name
    for part in reversed(Path(word).parts):  # the last part that says something
        plain = re.sub(r"\[.*?\]|[^\w.=,+-]+", "-", part)
        plain = re.sub(r"[-_]*-[-_]*", "-", plain).strip("-_.")
        if plain:
            return plain
    return "all"


def prepare(
    runs: Sequence[Run],
    options: Mapping[str, Any],
    variants: Mapping[str, Sequence[Any] | None],
    device: torch.device,
    notes: list[str],
) -> list[tuple[Job, Run]]:
    """A job for each variant of each run that can be measured, a note for each run that cannot."""
    jobs: list[tuple[Job, Run]] = []
    seen: dict[str, Run] = {}
    sets: dict[str, Any] = {}
    for run in runs:
        try:
            # runs on the same data share it: read once, held once
            recipe = json.dumps(run.config["data"], sort_keys=True)
            if recipe in sets:
                vars(run)["data"] = sets[recipe]
            sets[recipe] = run.data
            sha = run.checkpoint_sha(options["checkpoint"])
            fingerprint = run.data.fingerprint()
        except Exception as error:  # one broken run is no reason to compare none
            reason = str(error) if isinstance(error, UsageError) else f"{run.directory}: {one_line(error)}"
            notes.append(f"{reason} It is left out.")
            continue
        if sha in seen:
            notes.append(f"{run.directory} has the same checkpoint as {seen[sha].directory}: counted once.")
            continue
        seen[sha] = run
        trained_on = run.summary.get("data_hash", fingerprint)
        if trained_on != fingerprint:
            notes.append(
                f"{run.directory} was trained on data with hash {trained_on}, this machine has {fingerprint} "
                "and measures on that."
            )
        for name, variant in variants_of(run, variants):
            jobs.append((make_job(variant, name, sha, fingerprint, options, device), run))
    return jobs


def make_job(
    run: Run, variant: str, sha: str, fingerprint: str, options: Mapping[str, Any], device: torch.device
) -> Job:
    """What is asked of a run: images are read at other resolutions, texts at other lengths."""
    kind: type[Evaluator] = Resolution if run.data.kind == "image" else Length
    evaluator = kind(batch_size=options["batch_size"], **options[kind.name])
    patch = run.config["model"].get("patch_size")
    step = (patch, patch) if isinstance(patch, int) else tuple(patch) if patch else None
    resamples, confidence, which = options["bootstrap"], options["confidence"], options["checkpoint"]
    protocol = (
        f"{evaluator.protocol(run.data)}; {which} checkpoint; {100 * confidence:g} % interval over {resamples} "
        f"resamples of {evaluator.clusters(run.data)}; data {fingerprint}"
    )
    common = {
        "run": run.name, "checkpoint_sha": sha, "model": run.choices["model"], "pos": run.choices["pos"],
        "variant": variant, "seed": str(run.config["seed"]), "data": run.choices["data"],
        "train_size": size_word(evaluator.trained(run.data)), "evaluator": evaluator.name, "protocol": protocol,
    }  # fmt: skip
    load = partial(run.load_model, which, device)
    return Job(evaluator, run.data, load, evaluator.sizes(run.data, step), common, resamples, confidence)


def budget(run: Run) -> str:
    """How long a run trained, in words: part of what must be equal before two runs are ranked."""
    config, summary = run.config, run.summary
    if summary.get("status") not in ("complete", "interrupted"):
        return f"an unfinished training ({summary.get('status')})"
    step = config["global_batch_size"]
    planned = config.get("steps") or config["epochs"] * (len(run.data.train) // step)
    steps = summary.get("steps", planned)
    return f"{steps:,} steps of {step} ({steps * step:,} samples)"


def subject(job: Job, run: Run, rows: Sequence[Row]) -> Subject:
    """A run with its rows of this protocol, whatever its directory was called when they were measured."""
    mine = [row for row in rows if all(row[name] == job.common[name] for name in KEY if name != "size")]
    words = {name: job.common[name] for name in ("run", "model", "pos", "seed", "data", "train_size")}
    words["pos"] = f"{words['pos']} {job.common['variant']}".strip()
    length = f"trained at {words['train_size']} for {budget(run)}"
    return Subject(**words, budget=length, settings=flatten(run.config), identity=job.common["protocol"], rows=mine)


def report(
    directory: Path,
    jobs: Sequence[tuple[Job, Run]],
    rows: Sequence[Row],
    options: Mapping[str, Any],
    notes: Sequence[str],
    command: str,
) -> list[Section]:
    """report.md and its figures; returns what they show."""
    subjects: dict[str, list[Subject]] = {name: [] for name in EVALUATORS}
    for job, run in jobs:
        subjects[job.evaluator.name].append(subject(job, run, rows))
    sections = []
    for name, kind in EVALUATORS.items():
        groups = make_groups(subjects[name], kind)
        style = sorted({line.label for group in groups for line in group.lines})
        figures = [f"figures/{name}{f'-{i + 1}' if i else ''}.png" for i in range(len(groups))]
        for figure, group in zip(figures, groups, strict=True):
            draw(directory / figure, group, kind, style)
        if groups:
            sections.append(Section(kind, groups, figures))
    interval = f"{100 * options['confidence']:g} % bootstrap intervals ({options['bootstrap']} resamples, percentile)"
    everyone = [each for name in EVALUATORS for each in subjects[name]]
    hidden = len(rows) - sum(len(each.rows) for each in everyone)
    if hidden:
        notes = [*notes, f"results.csv also holds {hidden} rows of other runs or protocols, which are not shown here."]
    states = {run.name: run.summary.get("status", "") for _, run in jobs}
    made = Provenance(command, options["checkpoint"], interval, everyone, states, notes)
    write_report(directory / "report.md", f"Report {directory.name}", made, sections)
    return sections


def show(console: Console, directory: Path, sections: Sequence[Section]) -> None:
    """The tables, and where the rest is."""
    for section in sections:
        print_groups(console, section.groups)
    console.print(Text(f"numbers: {directory / 'results.csv'}\nreport:  {directory / 'report.md'}"), soft_wrap=True)
