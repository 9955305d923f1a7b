"""FSDP2 with a checkpoint in parts: it goes on, becomes a plain file, and nothing in it runs."""

from __future__ import annotations

import os
import pickle
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import poslab
from poslab.consolidate import consolidate, main
from poslab.errors import UsageError
from poslab.training.parts import METADATA, read_header, read_rest
from tests.configuration import GPT, configuration
from tests.processes import train
from tests.test_resume import stop

WORDS = [word for word in GPT if not word.startswith(("steps", "validate", "hardware"))]
WORDS += ["steps=10", "validate_every=4", "hardware=fsdp", "hardware.accelerator=cpu"]


def run(folder: Path, *more: str, **how: Any) -> tuple[Path, list[int]]:
    """The only run in a folder, after one more training by two processes."""
    folder.mkdir(exist_ok=True)
    codes = train(configuration(*WORDS, *more, f"runs={folder}/runs"), 2, folder / "log", **how)
    (directory,) = (folder / "runs").iterdir()
    return directory, codes


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run whose checkpoints are plain, and one in parts that was killed and went on."""
    folder = tmp_path_factory.mktemp("fsdp")
    plain, codes = run(folder / "plain")
    assert codes == [0, 0], (folder / "plain/log").read_text()
    died, codes = run(folder / "parts", "hardware.sharded=true", hook=partial(stop, "kill", 6))
    assert codes[0] == -9 and all(codes)
    assert {path.is_dir() for path in (died / "checkpoints").iterdir()} == {True}
    parts, codes = run(folder / "parts", "hardware.sharded=true", "resume=auto")
    assert codes == [0, 0], (folder / "parts/log").read_text()
    assert parts == died and "going on after step 4" in (parts / "train.log").read_text()
    return plain, parts


def flat(node: Any, name: str = "") -> dict[str, Any]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else None
    if items is None:
        return {name: node}
    return {key: value for inner, part in items for key, value in flat(part, f"{name}/{inner}").items()}


def test_parts_become_the_plain_file_of_the_same_training(
    trained: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, parts = trained
    copy = shutil.copytree(parts, tmp_path / "run")
    assert {path.name for path in (copy / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    with pytest.raises(UsageError, match=r"python -m poslab\.consolidate"):
        poslab.load_run(copy).load_model()
    assert main([str(copy)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(copy / f"checkpoints/{name}.ckpt") for name in ("best", "last")]
    assert {path.name for path in (copy / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    for which in ("last", "best"):
        one, two = (torch.load(each / f"checkpoints/{which}.ckpt", weights_only=True) for each in (plain, copy))
        assert one.keys() == two.keys()
        for key in ("state_dict", "optimizer_states"):
            ours, theirs = flat(one[key]), flat(two[key])
            assert ours.keys() == theirs.keys() and len(ours) > 10
            for name, value in ours.items():
                same = torch.equal(value, theirs[name]) if isinstance(value, torch.Tensor) else value == theirs[name]
                assert same, name
    inputs = torch.zeros(1, 4, dtype=torch.long)
    assert torch.equal(*(poslab.load_run(each).load_model()(inputs) for each in (plain, copy)))
    assert main([str(copy)]) == 2 and "no checkpoint in parts" in capsys.readouterr().err


def test_a_missing_or_shortened_part_is_damage(trained: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(trained[1] / "checkpoints/last.ckpt", tmp_path / "parts")
    assert read_header(folder)["global_step"] == 10
    part = next(folder.glob("*.distcp"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(EOFError, match="cut short"):
        read_rest(folder)
    part.unlink()
    with pytest.raises(FileNotFoundError):
        read_rest(folder)


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("where", ["metadata", "rest", "bytes"])
def test_code_in_parts_is_not_run(trained: tuple[Path, Path], tmp_path: Path, where: str) -> None:
    copy, called = shutil.copytree(trained[1], tmp_path / "run"), tmp_path / "called"
    folder = copy / "checkpoints/last.ckpt"
    shutil.rmtree(copy / "checkpoints/best.ckpt")
    (copy / "summary.json").unlink()
    if where == "rest":
        torch.save({"global_step": 10, "evil": Touch(called)}, folder / "meta.pt")
    else:
        metadata = pickle.loads((folder / METADATA).read_bytes())
        if where == "metadata":
            metadata.planner_data = Touch(called)
        else:
            plain = {key.fqn: info for key, info in metadata.storage_data.items()}
            name = next(key for key, kind in metadata.state_dict_metadata.items() if "Bytes" in type(kind).__name__)
            torch.save(Touch(called), folder / "evil.distcp")
            plain[name].relative_path, plain[name].offset = "evil.distcp", 0
            plain[name].length = (folder / "evil.distcp").stat().st_size
        (folder / METADATA).write_bytes(pickle.dumps(metadata))
    with pytest.raises(UsageError, match="holds more than"):
        consolidate(copy)
    codes = train(configuration(f"resume={copy}", *WORDS[-2:]), 2, tmp_path / "log")
    assert codes == [1, 1] and "cannot be read (UnpicklingError)" in (tmp_path / "log").read_text()
    assert not called.exists()
