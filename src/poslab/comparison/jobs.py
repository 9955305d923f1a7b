"""What is asked of which run, and which rows of results.csv are its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ..errors import UsageError
from ..evaluators import EVALUATORS, Evaluator
from ..evaluators.base import Size, size_word
from ..evaluators.lines import Subject
from ..evaluators.measure import Job, one_line
from ..evaluators.settings import flatten
from ..results_file import KEY, Row
from ..run import Run
from ..variants import variants_of


def prepare(
    runs: Sequence[Run],
    options: Mapping[str, Any],
    variants: Mapping[str, Sequence[Any] | None],
    device: torch.device,
    notes: list[str],
) -> list[tuple[Job, Run]]:
    """A job for each question to each variant of each run that can be measured, a note for each run that cannot.

    ValueError for sizes and counts that mean nothing.
    """
    asked = [EVALUATORS[name] for name in EVALUATORS if name in options]
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
        suitable = [kind for kind in asked if kind(**asked_of(kind, options)).suits(run.data)]
        if not suitable:
            names = ", ".join(kind.name for kind in asked)
            notes.append(f"{run.directory}, trained on data={run.choices['data']}, is no model to ask for {names}.")
        for name, variant in variants_of(run, variants):
            jobs += [(make_job(variant, kind, name, sha, fingerprint, options, device), run) for kind in suitable]
    return jobs


def asked_of(kind: type[Evaluator], options: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says about one evaluator."""
    return {"batch_size": options["batch_size"], **options[kind.name]}


def patch_of(model: Mapping[str, Any]) -> Size | None:
    """The patch of a model's configuration in pixels, which sizes are multiples of; None for a text."""
    patch = model.get("patch_size")
    return (patch, patch) if isinstance(patch, int) else tuple(patch) if patch else None


def make_job(
    run: Run, kind: type[Evaluator], variant: str, sha: str, fingerprint: str, options: Mapping[str, Any],
    device: torch.device,
) -> Job:  # fmt: skip
    """One question to one variant of a run."""
    more: dict[str, Any] = {"history": run.directory / "metrics.csv"} if kind.reads_history else {}
    if kind.reads_device:
        more["device"] = device
    evaluator = kind(**asked_of(kind, options), **more)
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
    sizes = evaluator.sizes(run.data, patch_of(run.config["model"]))
    return Job(evaluator, run.data, load, sizes, common, resamples, confidence)


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
    words["pos"] = encoding(job)
    length = f"trained at {words['train_size']} for {budget(run)}"
    reference = size_word(job.evaluator.reference(run.data))
    settings, protocol = flatten(run.config), job.common["protocol"]
    ranked = size_word(job.evaluator.ranked(run.data, job.sizes))
    return Subject(
        **words, reference=reference, budget=length, settings=settings, identity=protocol, rows=mine, ranked=ranked
    )


def encoding(job: Job) -> str:
    """The encoding and how it was read: `rope scaling=yarn`."""
    return f"{job.common['pos']} {job.common['variant']}".strip()
