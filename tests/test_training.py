"""A run is what its directory says, the same on every device count, and goes on where it stopped."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import poslab
from poslab.build import build_data, build_model
from poslab.data.order import Training
from poslab.errors import Interrupted, UsageError
from poslab.tasks.language import LanguageModelling
from poslab.training.fit import fit
from poslab.training.interrupt import Interrupt
from poslab.training.optimizer import parameter_groups, warmup_cosine
from tests.configuration import CONFIGS, GPT, VIT, configuration


def train(tmp_path: Path, *overrides: str) -> Path:
    return fit(configuration(*overrides, f"runs={tmp_path}/runs", f"reports={tmp_path}/reports"))


def checkpoint(directory: Path, which: str = "last") -> dict[str, Any]:
    return torch.load(directory / "checkpoints" / f"{which}.ckpt", weights_only=True)


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int, signum: int = 15) -> None:
    original = Interrupt.on_train_batch_end

    def hook(self: Interrupt, trainer: Any, *rest: Any) -> None:
        if trainer.global_step == step:
            self.signum = signum
        original(self, trainer, *rest)

    monkeypatch.setattr(Interrupt, "on_train_batch_end", hook)


@pytest.mark.parametrize("model", [GPT, VIT], ids=["gpt", "vit"])
def test_a_run_directory_tells_everything(tmp_path: Path, model: list[str]) -> None:
    directory = train(tmp_path, *model)
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["status"] == "complete" and summary["steps"] == 14
    assert {"best", "last", "seconds", "parameters", "data_hash", "versions", "device", "git_commit"} <= summary.keys()
    rows = list(csv.DictReader((directory / "metrics.csv").open()))
    assert steps_of(directory) == [5, 10, 14]  # the last step, always
    assert rows[-1]["train/loss"]
    assert checkpoint(directory)["global_step"] == 14
    assert "14 steps of" in (directory / "train.log").read_text()
    run = poslab.load_run(directory)
    data = run.data
    batch = data.val[torch.arange(8)]
    inputs = batch["inputs"] if data.kind == "text" else data.prepare(batch["images"])
    assert torch.isfinite(run.load_model()(inputs)).all()
    assert not list(directory.rglob("*.tmp"))


def test_evaluation_while_it_trains(tmp_path: Path) -> None:
    """Numbers come into metrics.csv at every second validation, are those that eval.py finds, and change no weight."""
    plain = train(tmp_path, *GPT, "optim.ema=0.9")
    more = ["evaluate=recall", "evaluate.recall.sizes=[4,8]", "evaluate_every=2", "evaluate.bootstrap=0"]
    watched = train(tmp_path, *GPT, "optim.ema=0.9", *more)
    rows = list(csv.DictReader((watched / "metrics.csv").open()))
    assert [int(row["step"]) for row in rows if row["recall/8/accuracy"]] == [10]
    assert equal(checkpoint(plain)["state_dict"], checkpoint(watched)["state_dict"])
    watched = train(tmp_path, *GPT, "optim.ema=0.9", *more, "evaluate_every=1")
    last = list(csv.DictReader((watched / "metrics.csv").open()))[-1]
    report = list(csv.DictReader((tmp_path / "reports" / watched.name / "results.csv").open()))
    assert len(report) == 8  # two sizes, four metrics: of the moving average, as the checkpoint
    for row in report:
        assert float(last[f"recall/{row['size']}/{row['metric']}"]) == pytest.approx(float(row["value"]), abs=1e-6)


def test_a_signal_is_not_lost_while_ranks_wait_for_each_other() -> None:
    def reduce(signum: torch.Tensor, reduce_op: str) -> torch.Tensor:
        if strategy.signals:
            interrupt._note(strategy.signals.pop(), None)
        return signum

    strategy = SimpleNamespace(reduce=reduce, signals=[15])
    trainer: Any = SimpleNamespace(accumulate_grad_batches=1, world_size=2, strategy=strategy)
    module = SimpleNamespace(device="cpu")
    saved: list[Any] = []
    interrupt = Interrupt(SimpleNamespace(save=saved.append))  # type: ignore[arg-type]
    before = signal.getsignal(signal.SIGTERM)
    try:
        interrupt.on_train_batch_end(trainer, module, None, None, 0)
        assert not saved
        with pytest.raises(Interrupted, match="SIGTERM"):
            interrupt.on_train_batch_end(trainer, module, None, None, 1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert saved == [trainer]


def test_a_checkpoint_opens_without_poslab(tmp_path: Path) -> None:
    directory = train(tmp_path, *GPT, "optim.ema=0.9")
    code = "import sys, torch; torch.load(sys.argv[1], weights_only=True); assert 'poslab' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(directory / "checkpoints" / "best.ckpt")], check=True, cwd="/")


def die_at(step: int) -> Any:
    def hook(self: Interrupt, trainer: Any, *rest: Any) -> None:
        if trainer.global_step == step:
            raise RuntimeError("power cut")

    return hook


def steps_of(directory: Path) -> list[int]:
    """Steps with a validation in metrics.csv."""
    return [int(row["step"]) for row in csv.DictReader((directory / "metrics.csv").open()) if row["val/loss"]]


CASES = {
    "plain": [*GPT, "model.dropout=0.1"],
    "images": [*VIT, "data.rotate=10", "data.scale=0.1", "model.drop_path=0.2", "optim.clip=null"],
}


@pytest.mark.parametrize("case", CASES)
def test_a_stopped_run_ends_with_the_weights_of_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    whole = train(tmp_path / "whole", *CASES[case])
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=7)
        with pytest.raises(Interrupted) as stop:
            train(tmp_path / "stopped", *CASES[case])
    assert stop.value.code == 143
    (stopped,) = (tmp_path / "stopped" / "runs").iterdir()
    assert poslab.load_run(stopped).summary["status"] == "interrupted"
    assert fit(configuration(f"resume={stopped}")) == stopped
    assert equal(checkpoint(whole)["state_dict"], checkpoint(stopped)["state_dict"])
    assert steps_of(stopped) == [5, 10, 14] and poslab.load_run(stopped).summary["status"] == "complete"
    with pytest.raises(UsageError, match="is finished"):
        fit(configuration(f"resume={stopped}"))


def test_a_run_that_died_goes_on_from_its_last_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(tmp_path / "whole", *CASES["plain"])
    with monkeypatch.context() as patch:
        patch.setattr(Interrupt, "on_train_batch_end", die_at(8))
        with pytest.raises(RuntimeError, match="power cut"):
            train(tmp_path / "died", *CASES["plain"])
    (died,) = (tmp_path / "died" / "runs").iterdir()
    assert poslab.load_run(died).summary["status"] == "failed" and checkpoint(died)["global_step"] == 5
    fit(configuration(f"resume={died}"))
    assert equal(checkpoint(whole)["state_dict"], checkpoint(died)["state_dict"])
    assert steps_of(died) == steps_of(whole)


def test_a_signal_at_a_validation_leaves_the_validation_out_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(tmp_path / "whole", *CASES["plain"])
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=10)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", *CASES["plain"])
    (stopped,) = (tmp_path / "stopped" / "runs").iterdir()
    fit(configuration(f"resume={stopped}"))
    assert equal(checkpoint(whole)["state_dict"], checkpoint(stopped)["state_dict"])
    assert set(steps_of(whole)) - set(steps_of(stopped)) <= {10}


@pytest.mark.parametrize(("before", "after"), [(32, 16), (16, 32)])
def test_a_resumed_run_may_divide_its_steps_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    whole = train(tmp_path / "whole", *GPT)
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=7)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", *GPT, f"device_batch_size={before}")
    (stopped,) = (tmp_path / "stopped" / "runs").iterdir()
    fit(configuration(f"resume={stopped}", f"device_batch_size={after}"))
    a, b = checkpoint(whole)["state_dict"], checkpoint(stopped)["state_dict"]
    assert max(float((a[key] - b[key]).abs().max()) for key in a) < 1e-5
    assert checkpoint(stopped)["global_step"] == 14


def test_resume_refuses_another_configuration_and_an_empty_directory(tmp_path: Path) -> None:
    directory = train(tmp_path, *GPT)
    (directory / "summary.json").unlink()
    with pytest.raises(UsageError, match=r"leave out optim\.lr=1"):
        fit(configuration(f"resume={directory}", "optim.lr=1"))
    with pytest.raises(UsageError, match=r"no config\.yaml"):
        fit(configuration(f"resume={tmp_path}"))
    with pytest.raises(UsageError, match="does not exist"):
        fit(configuration("resume=nowhere"))


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path: Path) -> None:
    a, b, c = (train(tmp_path, *VIT, f"seed={seed}") for seed in (0, 0, 2**32 - 1))
    assert a != b  # two launches in the same second have two directories
    assert equal(checkpoint(a)["state_dict"], checkpoint(b)["state_dict"])
    assert not equal(checkpoint(a)["state_dict"], checkpoint(c)["state_dict"])


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_train_as_one(tmp_path: Path, strategy: str) -> None:
    more = ["optim.clip=0.5", "steps=4", "validate_every=4"]
    single = train(tmp_path, *GPT, *more)
    words = [
        *(word for word in GPT if word != "hardware=cpu"),
        *more,
        f"hardware={strategy}",
        "hardware.accelerator=cpu",
        "hardware.devices=2",
    ]
    script = Path(__file__).parents[1] / "train.py"
    command = [sys.executable, str(script), *words, f"runs={tmp_path}/two", "logger=wandb", "logger.wandb.mode=offline"]
    subprocess.run(command, check=True, timeout=300)
    (double,) = (tmp_path / "two").iterdir()  # one directory for both
    assert len(list(double.glob("wandb/offline-run-*"))) == 1  # and one record
    one, two = (poslab.load_run(directory).summary["last"]["loss"] for directory in (single, double))
    assert abs(one - two) < 1e-5
    if strategy == "ddp":
        a, b = checkpoint(single)["state_dict"], checkpoint(double)["state_dict"]
        assert max(float((a[key] - b[key]).abs().max()) for key in a) < 1e-5


def test_fine_tuning_at_another_size_starts_from_the_weights(tmp_path: Path) -> None:
    for pos in ("learned", "rope2d_mixed"):
        first = train(tmp_path, *VIT, f"pos={pos}")
        second = train(tmp_path, *VIT, f"pos={pos}", "data.size=[12,10]", f"init_from={first}", "optim.lr=1e-12")
        a, b = (poslab.load_run(directory).load_model() for directory in (first, second))
        image = torch.randn(3, 1, 12, 10)
        # the first model reads the new size by itself: the second starts where that reading is
        assert torch.allclose(a(image), b(image), atol=1e-4)
    with pytest.raises(UsageError, match="choose the same encoding"):
        train(tmp_path, *VIT, "pos=none", f"init_from={first}")
    with pytest.raises(UsageError, match="Choose the same model sizes"):
        train(tmp_path, *VIT, "pos=rope2d_mixed", "model.mlp_ratio=2", f"init_from={first}")


def test_epochs_on_the_command_line_win_over_steps_in_a_file(tmp_path: Path) -> None:
    words = [word for word in GPT if not word.startswith("steps")]
    assert configuration(*words)["steps"] is not None
    run = poslab.load_run(train(tmp_path, *words, "epochs=1", "validate_every=10"))
    assert run.summary["steps"] == 10 and run.config["steps"] is None


def test_a_warning_about_the_encoding_is_a_line_in_the_log(tmp_path: Path) -> None:
    directory = train(tmp_path, *GPT, "pos=t5")
    assert (directory / "train.log").read_text().count("max_distance=128 lies beyond the 8 positions") == 1


def test_debug_keeps_nothing(tmp_path: Path) -> None:
    assert not train(tmp_path, *GPT, "debug=true", "evaluate=auto").exists()
    assert not list(tmp_path.rglob("*.*"))


def test_compile_renames_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: original(self, backend="eager"))
    plain, compiled = train(tmp_path, *GPT), train(tmp_path, *GPT, "compile=true")
    a, b = checkpoint(plain)["state_dict"], checkpoint(compiled)["state_dict"]
    assert a.keys() == b.keys()
    assert max(float((a[key] - b[key]).abs().max()) for key in a) < 1e-5


def test_what_does_not_fit_is_said_before_anything_is_written(tmp_path: Path) -> None:
    for words, sentence in {
        ("global_batch_size=10000",): "has 320 samples",
        ("device_batch_size=5",): "does not divide global_batch_size=32",
        ("steps=null",): "set steps= or epochs=",
        ("steps=3", "epochs=1"): "give one of them",
        ("+hardware.colour=red",): "hardware.colour is not an argument",
        ("+hardware.max_time=1",): "hardware.max_time is not an argument",
        ("hardware.precision=16-mixed",): "use bf16-mixed",
        ("model.heads=3",): "choose heads that divide dim",
        ("pos.fraction=2",): "leaves no pair to turn",
        ("evaluate=auto", "evaluate.confidence=2"): "is a probability",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            train(tmp_path, *GPT, *words)
    with pytest.raises(UsageError, match="choose data for texts"):
        train(tmp_path, "model=gpt", "data=digits")
    assert not (tmp_path / "runs").exists()


def test_positions_never_decay_and_every_parameter_is_in_one_group() -> None:
    for words in ([*GPT, "pos=t5"], [*GPT, "pos=shaw"], [*VIT, "pos=learned", "model.pool=class"]):
        config = configuration(*words)
        model = build_model(config, build_data(config))
        groups = {group["name"]: group for group in parameter_groups(model, 0.1)}
        owned = [id(parameter) for group in groups.values() for parameter in group["params"]]
        assert sorted(owned) == sorted({id(parameter) for parameter in model.parameters()})
        position = {id(parameter) for parameter in model.trunk.position.parameters()}  # type: ignore[union-attr]
        assert {id(parameter) for parameter in groups["position"]["params"]} == position
        assert groups["position"]["weight_decay"] == groups["no_decay"]["weight_decay"] == 0
        assert all(parameter.ndim >= 2 for parameter in groups["decay"]["params"])
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        assert not [n for n in map(names.get, owned) if n and "norm" in n and n in groups["decay"]]


def test_the_schedule_rises_falls_and_ends_where_it_should() -> None:
    factor = warmup_cosine(100, warmup=0.1, final=0.05)
    assert factor(0) == pytest.approx(0.1) and factor(9) == factor(10) == 1.0
    assert factor(55) == pytest.approx((1 + 0.05) / 2) and factor(100) == pytest.approx(0.05)
    assert warmup_cosine(1, 0.0, 0.1)(0) == 1.0


def test_accumulated_gradients_are_the_sum_over_all_tokens() -> None:
    """2 and 6 valid tokens weigh 2/8 and 6/8."""
    config = configuration(*GPT)
    data = build_data(config)
    model = build_model(config, data)
    batch = data.train[torch.arange(4)]
    batch["targets"][:2, 5:] = -100
    for _ in range(2):
        torch.nn.init.normal_(model.head.weight, std=0.3)  # type: ignore[union-attr]
    order = Training(samples=320, step=4, micro=2, steps=1, seed=0)
    task = LanguageModelling(model, data, config["optim"], order)
    whole = task.sums(batch)
    (whole["loss"] / whole["count"]).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    task._trainer = type("Trainer", (), {"world_size": 1})()  # all that the hook asks of it
    for half in (slice(0, 2), slice(2, 4)):
        loss = task.training_step({name: value[half] for name, value in batch.items()}, 0)
        (loss / order.accumulate).backward()  # as the Trainer does
    task.on_before_optimizer_step(None)  # type: ignore[arg-type]
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-7)


def test_a_gpt_learns_to_copy(tmp_path: Path) -> None:
    words = ["data.samples=20000", "data.symbols=8", "data.lengths=fixed"]
    words += ["steps=500", "validate_every=500", "optim.lr=3e-3"]
    directory = train(tmp_path, *GPT, *words)
    assert poslab.load_run(directory).summary["last"]["accuracy"] > 0.99


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml")))
def test_every_model_can_be_built_with_its_own_defaults(name: str) -> None:
    config = configuration(f"model={name}")
    data = build_data(configuration(f"model={name}"))
    with torch.device("meta"):
        model = build_model(config, data)
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    expected = {"vit_ti": 5.5, "vit_s": 21.5, "vit_b": 85.4, "vit_l": 303, "gpt2_124m": 85.3, "gpt2_350m": 302.6}
    assert millions < 1 or millions == pytest.approx(expected[name], rel=0.02)
