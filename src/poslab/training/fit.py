"""Train one configuration: data, model, Trainer, run directory, and the evaluation at the end."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from rich.console import Console

from ..build import build_data, build_model, instantiate
from ..comparison import check_options, compare
from ..comparison.jobs import asked_of, patch_of
from ..data.module import Loaders
from ..device import device_name
from ..errors import Interrupted, UsageError
from ..evaluators import EVALUATORS
from ..evaluators.processes import Processes
from ..files import shown, write
from ..lock import held
from ..trackers import check_installed, tracking
from . import run_directory
from .checkpoints import Checkpoints
from .console import announce, log_to, quiet
from .evaluation import Evaluation
from .hardware import trainer_arguments
from .identity import LOCK
from .interrupt import Interrupt
from .metrics import MetricsFile, Record
from .opening import Opening
from .plan import plan
from .progress import REPORT, Bar, Lines, Report
from .start import Start, begin, from_run
from .utilisation import ideal_seconds

log = logging.getLogger("poslab")


def fit(config: dict[str, Any]) -> Path:
    """Train `config` (plain, resolved, with `choices` and `overrides`) and evaluate the result.

    Returns the run directory. Raises UsageError for what a person can mend, before anything is
    written, and Interrupted, after a checkpoint, at a signal.
    """
    if config["debug"]:
        return _debug(config)
    quiet()
    start = begin(config)
    config = start.config
    trainer = _trainer(config)
    L.seed_everything(config["seed"], verbose=False)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            data = build_data(config)
            model = build_model(config, data)
        except (ValueError, TypeError, FileNotFoundError) as error:  # sentences about a configuration
            raise UsageError(str(error)) from error
    if start.data_hash not in (None, data.fingerprint()):
        raise UsageError(f"resume={start.directory}: its data had the hash {start.data_hash}, here it is another.")
    if config["init_from"] and not start.step:
        from_run(model, config["init_from"])
    training = plan(config, len(data.train), trainer.world_size, start.step)
    task = instantiate(config["task"])(model, data, config["optim"], training)
    loaders = Loaders(data, training, min(config["evaluate"]["batch_size"], len(data.val)), config["workers"])

    directory = start.directory or run_directory.make(config)
    busy = f"{shown(directory)}: process {{process}} is training it; wait, or stop that one."
    with held(directory / LOCK, busy) if trainer.is_global_zero else nullcontext():
        console = log_to(directory, trainer.is_global_zero)
        with tracking(config, directory, trainer.is_global_zero) as trackers:
            _train(start, directory, trainer, task, loaders, console, trackers, [str(each.message) for each in warned])
            if trainer.is_global_zero:
                if config["hardware"].get("sharded"):
                    log.info(f"next:    python -m poslab.consolidate {shown(directory)}, then eval.py")
                elif not config["evaluate"]["skip"]:
                    report = _evaluate(directory, config, trainer.strategy.root_device)
                    for tracker in trackers:
                        tracker.report(report, trainer.global_step)
                log.info(f"run:     {shown(directory)}")
    return directory


def _train(
    start: Start,
    directory: Path,
    trainer: L.Trainer,
    task: Any,
    loaders: Loaders,
    console: Console,
    trackers: list[Any],
    warned: list[str],
) -> None:
    """Train `task` to its last step and keep the run directory true; `warned` is what its making had to say."""
    config, model, data, training = start.config, task.model, task.data, task.training_order
    place, main = shown(directory), trainer.is_global_zero
    ideal = ideal_seconds(model, data, trainer.strategy.root_device, str(trainer.precision), trainer.world_size)
    record, checkpoints = Record(config["logger"]["every"], ideal), Checkpoints(directory / "checkpoints")
    watch = Bar(console) if console.is_terminal else Lines()
    trainer.callbacks += [record, checkpoints, Interrupt(checkpoints), watch]  # type: ignore[attr-defined]
    if config["evaluate_every"]:
        trainer.callbacks.insert(0, _evaluation(config, data))  # type: ignore[attr-defined]
    if main and REPORT in os.environ:
        trainer.callbacks.append(Report(Path(os.environ[REPORT]), directory))  # type: ignore[attr-defined]
    trainer.loggers = [MetricsFile(directory, training.steps_per_epoch, start.step), *trackers]
    trainer.fit_loop.epoch_loop.max_steps = training.steps
    trainer.accumulate_grad_batches = training.accumulate
    every = config["validate_every"] or training.steps_per_epoch
    trainer.val_check_interval = min(every, training.steps) * training.accumulate
    if config["compile"]:
        model.compile()  # in place: assigning the compiled module would rename every parameter

    summary = run_directory.Summary(directory, seed=config["seed"], data_hash=data.fingerprint(), steps=start.step)
    if main:
        total, position = (sum(p.numel() for p in m.parameters()) for m in (model, model.trunk.position))
        summary.save(parameters=total, position_parameters=position)
        summary.save(**run_directory.environment(trainer.strategy.root_device))
        for name, content in getattr(data, "kept", {}).items():
            write(directory / name, content)
        facts = device_name(trainer.strategy.root_device), str(trainer.precision), directory
        announce(Opening(config, data, training, total, position, *facts), console)
        for note in [*start.notes, *warned]:
            log.info(f"note: {note}")

    status = "failed"
    try:
        with run_directory.shared(directory):
            trainer.fit(task, datamodule=loaders, ckpt_path=start.checkpoint, weights_only=True)
        if trainer.global_step != training.steps:
            raise RuntimeError(f"Training ended after step {trainer.global_step} of {training.steps}.")
        status = "complete"
    except Interrupted:
        status = "interrupted"
        raise
    finally:
        if main:
            summary.save(status=status, steps=trainer.global_step, samples_per_second=record.throughput())
            summary.save(best=checkpoints.best, last=task.validation)
            if status == "interrupted":
                log.info(f"stopped after step {trainer.global_step:,}, saved; python train.py resume={place} goes on")
            if status == "complete":
                checkpoints.complete()


def _trainer(config: dict[str, Any]) -> L.Trainer:
    """A Trainer that knows its devices and does nothing by itself; UsageError before anything is written."""
    arguments = trainer_arguments(config["hardware"])
    callbacks: list[L.Callback] = []
    if config["optim"]["ema"] is not None:
        if config["hardware"]["strategy"] == "fsdp":
            raise UsageError("optim.ema averages whole models: leave it out under hardware=fsdp.")
        callbacks.append(EMAWeightAveraging(decay=config["optim"]["ema"]))
    if not config["evaluate"]["skip"] or config["evaluate_every"]:
        check_options(config["evaluate"] | {"skip": False})  # now, not after hours of training
    check_installed(config["logger"])
    trainer = L.Trainer(
        **arguments,
        callbacks=callbacks,
        max_epochs=1,  # the loader joins all epochs into one pass
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    if trainer.world_size > 1 and config["multirun"]:  # the other processes would sweep again, each for itself
        raise UsageError(
            "hydra/launcher=basic runs all jobs in this process, on one device: leave it out, or hardware.devices=1."
        )
    return trainer


def _evaluation(config: dict[str, Any], data: Any) -> Evaluation:
    """What is measured while training goes on: all that suits the data and asks the model alone."""
    options = config["evaluate"]
    kinds = [kind for name, kind in EVALUATORS.items() if name in options and kind.divisible]
    evaluators = [kind(**asked_of(kind, options)) for kind in kinds]
    patch = patch_of(config["model"])
    return Evaluation([each for each in evaluators if each.suits(data)], data, config["evaluate_every"], patch)


def _evaluate(directory: Path, config: dict[str, Any], device: torch.device) -> Path:
    """What `eval.py runs=<this run>` does, without its page; returns the directory of the report."""
    asked = {"runs": str(directory), "reports": config["reports"], "evaluate": config["evaluate"]}
    return compare(asked, Processes(device), page=False)  # a sweep of sixty runs would leave 300 MB of pages


def _debug(config: dict[str, Any]) -> Path:
    """Two steps, two validation batches, a short evaluation, in a directory that goes away."""
    if config["resume"]:
        raise UsageError("debug=true keeps nothing, so there is nothing to resume: leave one of them out.")
    runs = Path(tempfile.mkdtemp(prefix="poslab-debug-"))
    evaluate = config["evaluate"]
    evaluate = evaluate | {
        "bootstrap": 20,
        "resolution": {"ratios": [1]},
        "length": {"ratios": [1], "count": 8},
    }
    hardware = config["hardware"] | {"limit_val_batches": 2}
    steps = {"steps": 2, "epochs": None, "validate_every": 2, "overrides": []}
    try:
        return fit(
            config
            | {
                "debug": False,
                "logger": {"every": 1},
                "runs": str(runs),
                "reports": str(runs),
                "evaluate": evaluate,
                "hardware": hardware,
            }
            | steps
        )
    finally:
        shutil.rmtree(runs, ignore_errors=True)
        log.info("debug=true: nothing of this was kept")
