"""What a training says at its start: a table on a terminal, lines elsewhere, once, by one process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from poslab.build import build_data, build_model
from poslab.cli.compositions import composed_words, write_compositions
from poslab.cli.configs import Configs
from poslab.training.console import announce
from poslab.training.fit import fit
from poslab.training.opening import Opening, plain
from poslab.training.plan import plan, settle_length
from tests import processes
from tests.configuration import GPT, VIT, configuration

PLACE = "20261201-030707_gpt_learned+rope-none_fineweb_edu_s0"
QUICK = ["steps=2", "validate_every=2", "evaluate.skip=true"]


def opening(*words: str, world: int = 1, start: int = 0, **changes: Any) -> Opening:
    config = settle_length(configuration(*words)) | changes
    data = build_data(config)
    training = plan(config, len(data.train), world, start)
    parameters = sum(each.numel() for each in build_model(config, data).parameters())
    return Opening(config, data, training, parameters, 0, "NVIDIA H200", "bf16-mixed", Path(f"/runs/{PLACE}"))


def printed(what: Opening, width: int) -> str:
    console = Console(width=width, force_terminal=True, color_system=None, soft_wrap=True)
    with console.capture() as capture:
        announce(what, console)
    return capture.get()


def letters(text: str) -> Counter[str]:
    return Counter("".join(text.replace("─", "").split()))


@pytest.mark.parametrize("model", [GPT, VIT], ids=["gpt", "vit"])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_nothing_is_wider_than_the_terminal_and_nothing_is_cut(model: list[str], width: int) -> None:
    what = opening(*model)
    text = printed(what, width)
    assert max(map(len, text.splitlines())) <= width
    cut = letters(text) != letters(printed(what, 1000))  # a flag: pytest would compare two long lists for minutes
    assert not cut, text
    if width >= 80:
        assert len(text.splitlines()) <= 20


def test_every_fact_is_there() -> None:
    words = [*GPT, "pos=rope", "pos/scaling=yarn", "pos.scaling.factor=4", "optim.warmup=0.5", "device_batch_size=8"]
    text = printed(opening(*words, world=2, start=3, init_from="runs/[red]old[/red]", compile=True), 1000)
    for fact in (
        "gpt  dim=32 heads=2 depth=2", "rope  theta=10000 pairs=half", "scaling=YaRN(factor=4, ",
        "copy  320 train, ", "sequences of 8 tokens, vocabulary ", "from runs/[red]old[/red]",
        "14 steps of 32 samples, going on after step 3: 1.4 epochs of 320 samples; validated every 5 steps; seed 0",
        "lr=0.002 betas=[0.9,0.99] eps=1e-08 weight_decay=0.05 clip=1",
        "7 steps up to lr, then half a cosine down to 2e-05",
        "2 x NVIDIA H200, bf16-mixed; 2 x 8 samples of a step on each; compiled", f"/runs/{PLACE}",
    ):  # fmt: skip
        assert fact in text, fact
    assert "dropout" not in text and "ema" not in text  # what is off
    image = printed(opening(*VIT, "data.size=[8,16]"), 1000)
    assert "digits  1,257 train, 180 val, 360 test images of 8x16 pixels, 10 classes" in image
    assert "samples of a step on each" not in image and "weights" not in image


def test_the_lines_name_the_data_and_its_hash() -> None:
    for words, line in (
        (GPT, "Copy: 320 train, 1,000 val, 1,000 test sequences"),
        (VIT, "Digits: 1,257 train, 180 val, 360 test images"),
    ):
        what = opening(*words)
        assert f"{line}, hash {what.data.fingerprint()}" in what.lines()


def test_the_parts_of_a_composition_have_a_line_each(tmp_path: Path) -> None:
    word = "learned+rope-none"
    write_compositions(composed_words([f"pos={word}"]), Configs("train").options("pos"), tmp_path)
    node = Configs("train", more=[f"file://{tmp_path}"]).compose(["model=gpt", f"pos={word}"]).values["pos"]
    what = opening(*GPT)
    lines = printed(Opening(**vars(what) | {"config": {**what.config, "pos": node}}), 1000).splitlines()
    starts = [line.split()[0] for line in lines if line.strip()]
    here = starts.index("position")
    assert starts[here + 1 : here + 5] == ["learned_rope", "learned", "rope", "none"]


def test_values_are_written_as_on_the_command_line() -> None:
    values = [10000.0, 1e-8, 0.5, True, None, "half", [0.9, 0.95], 7]
    assert [plain(value) for value in values] == ["10000", "1e-08", "0.5", "true", "null", "half", "[0.9,0.95]", "7"]


@pytest.mark.parametrize("terminal", [True, False])
def test_it_is_said_once_and_the_log_has_the_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", str(int(terminal)))  # what rich asks before the file itself
    monkeypatch.setenv("COLUMNS", "80")
    directory = fit(configuration(*GPT, *QUICK, f"runs={tmp_path}"))
    said, log = capsys.readouterr().err, (directory / "train.log").read_text()
    for line in ("gpt with pos=rope: ", "Copy: 320 train", "; run directory "):
        assert (said.count(line), log.count(line)) == (int(not terminal), 1)
    assert (said.count("optimizer"), log.count("optimizer")) == (int(terminal), 0)
    assert f"run:     {directory}" in said  # later lines are for both


def test_one_of_two_processes_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    words = [*GPT, *QUICK, "hardware=ddp", "hardware.accelerator=cpu", "hardware.devices=2", f"runs={tmp_path}"]
    log = tmp_path / "said"
    assert processes.train(configuration(*words), 2, log) == [0, 0]
    assert log.read_text().count("optimizer") == 1 and "16 samples of a step on each" in log.read_text()
