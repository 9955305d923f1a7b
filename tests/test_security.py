"""A configuration, a checkpoint, a run directory from a stranger: nothing in them is called."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import poslab
from poslab import cli
from poslab import trust as circle
from poslab.build import build_data, build_model, instantiate
from poslab.comparison import compare
from poslab.errors import UsageError
from poslab.gallery import draw_run
from poslab.positions import Spec
from poslab.training.fit import fit
from poslab.trust import trust
from tests.configuration import GPT, configuration

MINE = """
from poslab.positions.alibi import ALiBi

class Mine(ALiBi):
    def bias(self, q_pos, k_pos):
        return 2 * super().bias(q_pos, k_pos)

def function(spec):
    raise SystemExit("called")
"""


@pytest.fixture(autouse=True)
def nobody_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circle, "_packages", set())


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module `mine` that can be imported, and a folder of configurations with a word for it."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "more/pos").mkdir(parents=True)
    (tmp_path / "more/pos/mine.yaml").write_text("# Mine.\n_target_: mine.Mine\n_partial_: true\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("mine", None)


def touching(path: Path) -> Any:
    """An object whose unpickling makes a file."""

    class Touch:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {path}",)

    return Touch()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(configuration(*GPT, "steps=2", "validate_every=1", f"runs={tmp_path_factory.mktemp('runs')}"))


def run_with(trained: Path, tmp_path: Path, **changes: Any) -> Path:
    """A copy of a run whose configuration says something else."""
    copy = shutil.copytree(trained, tmp_path / "stranger")
    config = yaml.safe_load((copy / "config.yaml").read_text()) | changes
    (copy / "config.yaml").write_text(yaml.safe_dump(config))
    return copy


FOREIGN = [
    "os.system", "torch.load", "torch.hub.load", "subprocess.Popen", "builtins.eval", "nothing", "",
    "poslab.sweep.job.Job", "poslab.lock.held", "poslab.build.import_module", "poslab.run.torch",
    "poslab.positions.base.PositionEncoding",
]  # fmt: skip


@pytest.mark.parametrize("target", FOREIGN)
def test_only_listed_classes_are_called_wherever_they_stand(target: str) -> None:
    node = {"_target_": target, "command": "true"}
    parts = {"_target_": "poslab.positions.sum.Sum", "_partial_": True}
    for config in ({"data": node}, {"data": parts | {"parts": {"a": node}}}, {"data": parts | {"a": {"b": node}}}):
        with pytest.raises(UsageError, match="none of the classes that configs/ lists"):
            build_data(config)


def test_what_is_trusted_is_classes_of_a_package_and_not_what_it_imports(mine: Path) -> None:
    node = {"_target_": "mine.Mine", "_partial_": True}
    with pytest.raises(UsageError, match=r"add trust=\[mine\]"):
        instantiate(node)
    assert "mine" not in sys.modules
    trust("mine", "os")
    assert instantiate(node)(Spec(8, 2, (4,), True)).shift_invariant
    for target in ("mine.function", "mine.ALiBi", "os.system"):
        with pytest.raises(UsageError, match="is not a class of"):
            instantiate({"_target_": target})
    with pytest.raises(UsageError, match="none of the classes"):
        instantiate({"_target_": "mineral.Thing"})
    with pytest.raises(UsageError, match="cannot be imported"):
        instantiate({"_target_": "mine.deeper.Thing"})


def test_an_encoding_of_ones_own_is_trusted_on_the_command_line(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(config: dict[str, Any]) -> None:
        fit(config)

    def launch(*words: str) -> int:
        monkeypatch.setattr(circle, "_packages", set())
        line = [*GPT, "steps=2", "validate_every=1", f"runs={mine}/runs", "pos=mine", *words]
        monkeypatch.setattr(sys, "argv", ["train.py", *line, "--config-dir", str(mine / "more")])
        try:
            cli.main(train, "train")
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    assert launch() == 2 and "add trust=[mine]" in capsys.readouterr().err
    assert launch("trust=mine") == 2 and "not a list" in capsys.readouterr().err
    assert launch("trust=['a b']") == 2 and "by their names" in capsys.readouterr().err
    assert launch("trust=[mine]") == 0
    (directory,) = (mine / "runs").iterdir()
    assert "trust" not in yaml.safe_load((directory / "config.yaml").read_text())
    run = poslab.load_run(directory)
    assert type(run.load_model().trunk.position[0]).__name__ == "Mine"  # type: ignore[union-attr, index]
    monkeypatch.setattr(circle, "_packages", set())
    with pytest.raises(UsageError, match=r"add trust=\[mine\]"):
        run.load_model()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("trust: [os]", "says trust"),
        ("hydra:\n  callbacks:\n    evil:\n      _target_: os.system\n      command: 'true'", "call os.system"),
        ("hydra:\n  launcher:\n    _target_: torch.hub.load", "call torch.hub.load"),
        ("hydra:\n  job_logging:\n    handlers: {evil: {class: os.system, command: 'true'}}", "call os.system"),
        ("hydra:\n  job_logging:\n    formatters: {evil: {(): os.system}}", "call os.system"),
    ],
)
def test_a_file_cannot_widen_the_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/strange.yaml").write_text(f"# @package _global_\n# Strange.\n{text}\n")
    monkeypatch.setattr(sys, "argv", ["train.py", "experiment=strange", "--config-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        cli.main(lambda config: pytest.fail("it ran"), "train")
    assert stop.value.code == 2 and sentence in capsys.readouterr().err
    assert not circle._packages


def test_a_run_directory_from_a_stranger_calls_nothing(trained: Path, tmp_path: Path) -> None:
    target = tmp_path / "called"
    evil = {"_target_": "os.system", "command": f"touch {target}", "_partial_": False}
    stranger = run_with(trained, tmp_path, pos=evil, trust=["os"])
    (stranger / "summary.json").unlink()
    with pytest.raises(UsageError, match=r"os\.system"):
        poslab.load_run(stranger).load_model()
    with pytest.raises(UsageError, match=r"os\.system"):
        draw_run(stranger)
    with pytest.raises(UsageError, match=r"os\.system"):
        fit(configuration(f"resume={stranger}"))
    with pytest.raises(UsageError, match=r"os\.system"):
        fit(configuration(*GPT, f"init_from={stranger}", f"runs={tmp_path}/runs"))
    config = yaml.safe_load((stranger / "config.yaml").read_text())
    (stranger / "config.yaml").write_text(yaml.safe_dump(config | {"data": evil}))
    with pytest.raises(UsageError, match=r"nothing to measure.*os\.system"):
        evaluation = configuration(f"runs={stranger}", f"reports={tmp_path}/reports", "evaluate=recall", name="eval")
        compare(evaluation, quiet=True)
    (stranger / "config.yaml").write_text(f"a: !!python/object/apply:os.system ['touch {target}']\n")
    with pytest.raises(yaml.YAMLError):
        poslab.load_run(stranger).load_model()
    assert not target.exists() and not circle._packages and not (tmp_path / "runs").exists()


def test_a_checkpoint_with_code_in_it_is_refused(trained: Path, tmp_path: Path) -> None:
    target = tmp_path / "called"
    stranger = run_with(trained, tmp_path)
    (stranger / "summary.json").unlink()
    for path in (stranger / "checkpoints").glob("*.ckpt"):
        torch.save(torch.load(path, weights_only=True) | {"hyper_parameters": touching(target)}, path)
    with pytest.raises(UsageError, match="more than tensors and plain values"):
        poslab.load_run(stranger).load_model()
    with pytest.raises(UsageError, match="more than tensors and plain values"):
        fit(configuration(*GPT, f"init_from={stranger}", f"runs={tmp_path}/runs"))
    with pytest.raises(UsageError, match="cannot be read"):
        fit(configuration(f"resume={stranger}"))
    options = ["evaluate=recall", "evaluate.bootstrap=0", f"reports={tmp_path}/reports"]
    report = compare(configuration(f"runs={stranger}", *options, name="eval"), quiet=True)
    assert "more than tensors and plain values" in (report / "results.csv").read_text()
    assert not target.exists()
    torch.load(stranger / "checkpoints/last.ckpt", weights_only=False)
    assert target.exists()  # so the line above can fail


def test_the_lists_hold_what_is_built_here() -> None:
    config = configuration(*GPT)
    assert build_model(config, build_data(config)) is not None
    assert {"poslab.positions.rope.RoPE", "poslab.tasks.language.LanguageModelling"} <= circle.listed()
