"""What TensorBoard and Trackio find of a run, read with their own code, and how much of a device a training uses."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from poslab.build import build_data, build_model
from poslab.errors import Interrupted, UsageError
from poslab.evaluators.timing import forward_flops
from poslab.trackers import check_installed, check_report
from poslab.training import utilisation
from poslab.training.fit import fit
from poslab.training.metrics import Record
from tests.configuration import GPT, VIT, configuration
from tests.test_training import interrupt_at


@pytest.fixture
def stopped_and_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with both trackers that was interrupted at step 3 of 6 and went on."""
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path / "trackio")
    words = [*GPT, "steps=6", "validate_every=2", "logger=[tensorboard,trackio]", "logger.every=2"]
    words += ["evaluate=recall", "evaluate.recall.sizes=[4,8]", "evaluate.bootstrap=0", f"reports={tmp_path}/reports"]
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_at(patch, step=3)
        fit(configuration(*words, f"runs={tmp_path}/runs/sweeps/study"))
    (directory,) = (tmp_path / "runs/sweeps/study").iterdir()
    fit(configuration(f"resume={directory}"))
    return directory


def test_both_trackers_have_what_metrics_csv_has(stopped_and_finished: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    directory = stopped_and_finished
    rows = list(csv.DictReader((directory / "metrics.csv").open()))
    expected = {
        name: {int(row["step"]): float(row[name]) for row in rows if row[name]}
        for name in ("train/loss", "train/lr", "val/loss", "val/accuracy")
    }
    assert [*expected["val/loss"]] == [2, 4, 6]

    board = EventAccumulator(str(directory / "tensorboard"))
    board.Reload()
    for name, values in expected.items():
        assert {event.step: event.value for event in board.Scalars(name)} == pytest.approx(values, rel=1e-6)
    assert [event.step for event in board.Scalars("recall/8/loss")] == [6]

    (run,) = Api().runs("poslab")
    assert run.name == directory.name and run.config["pos"] == "rope" and run.config["_Group"] == "study"
    history = SQLiteStorage.get_logs("poslab", run.name)
    for name, values in expected.items():
        logged = {row["step"]: row[name] for row in history if name in row}
        assert logged == pytest.approx(values, rel=1e-6)
    assert history[-1]["recall/8/loss"] == pytest.approx(board.Scalars("recall/8/loss")[0].value, rel=1e-6)


def test_a_tracker_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poslab.optional.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install -e '\.\[trackio\]'"):
        check_installed({"every": 50, "trackio": {"project": "x"}})
    monkeypatch.undo()
    with pytest.raises(UsageError, match="logger=tensorboard: a comparison is"):
        check_report({"tensorboard": True})


@pytest.mark.parametrize("words", [GPT, VIT], ids=["gpt", "vit"])
def test_utilisation_is_the_share_of_the_peak(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On two devices of 10 TFLOP/s each: a step's matrix products over what both could do in its time."""
    config = configuration(*words)
    data = build_data(config)
    model = build_model(config, data)
    asked: list[Any] = []
    monkeypatch.setattr(utilisation, "get_available_flops", lambda *what: asked.append(what) or 10e12)
    gpu = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "some GPU")
    ideal = utilisation.ideal_seconds(model, data, gpu, "bf16-mixed", 2)
    sample = data.train[torch.tensor([5])]
    inputs = sample["inputs"] if data.kind == "text" else data.prepare(sample["images"])
    assert asked == [(gpu, torch.bfloat16)]
    assert ideal == pytest.approx(3 * forward_flops(model, inputs) / 20e12) and ideal > 0
    assert utilisation.ideal_seconds(model, data, torch.device("cpu"), "32-true", 2) is None
    monkeypatch.setattr(utilisation, "get_available_flops", lambda *what: None)
    assert utilisation.ideal_seconds(model, data, gpu, "32-true", 1) is None  # a device that nobody knows


def test_half_precision_is_measured_against_the_dense_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, peak in (("NVIDIA H200", 989e12), ("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA H100 PCIe", 756e12)):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        assert utilisation.peak_flops(torch.device("cuda"), torch.bfloat16) == peak


def test_utilisation_is_recorded_beside_the_throughput() -> None:
    logged: list[dict[str, float]] = []
    logger = SimpleNamespace(log_metrics=lambda metrics, step: logged.append(metrics), save=lambda: None)
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.1}])
    trainer = SimpleNamespace(
        accumulate_grad_batches=1, global_step=0, max_steps=9, optimizers=[optimizer], loggers=[logger]
    )
    module = SimpleNamespace(training_order=SimpleNamespace(step=8), latest={})
    record = Record(every=2, ideal=0.001)
    for step in (1, 2, 3, 4):
        trainer.global_step = step
        record.on_train_batch_end(trainer, module, None, None, step)  # type: ignore[arg-type]
    for metrics in logged:
        assert metrics["train/mfu"] == pytest.approx(metrics["train/samples_per_second"] / 1000)
    assert len(logged) == 2
