"""Texts become tokens in files, the same ones whatever happens on the way, and can be read back."""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import os
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from poslab.cli.check import check
from poslab.cli.configs import Configs
from poslab.data import chunks, packing
from poslab.data.hub_text import HubText, WikiText
from poslab.data.splits import split_of
from poslab.data.text import ByteText
from poslab.data.text_files import TextFiles
from poslab.data.tokenizer import Bytes, load_tokenizer
from poslab.data.tokens import TokenText
from poslab.errors import UsageError
from poslab.generate import main as generate
from poslab.run import load_run
from poslab.training.fit import fit
from tests.configuration import configuration

WORDS = [
    "the",
    "of",
    "position",
    "encoding",
    "naïve",
    "café",
    "—",
    "位置",
    "😀",
    "reads\n",
    "and",
    "longer\n\n",
    "texts",
]
GPT = ["model=gpt", "model.dim=32", "model.heads=2", "model.depth=1", "steps=2", "validate_every=2", "hardware=cpu"]
GPT += ["global_batch_size=4"]


def document(number: int) -> bytes:
    words = np.random.default_rng(number).integers(0, len(WORDS), 40 + number)
    return " ".join(WORDS[word] for word in words).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 texts, in two folders."""
    for number in range(60):
        path = tmp_path / "texts" / f"{number % 2}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document(number))
    return tmp_path / "texts"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and chunks so small that there are many."""
    monkeypatch.setattr(chunks, "PIECE", 200)
    monkeypatch.setattr(chunks, "CHUNK", 2000)


def files(folder: Path, cache: str = "cache", **options: Any) -> TextFiles:
    return TextFiles(str(folder), **{"context": 8, "cache": str(folder.parent / cache), "vocab": 300} | options)


def contents(data: TokenText) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.folder.iterdir() if path.name != "index.json"}


def documents(data: TokenText, split: str) -> list[np.ndarray]:
    tokens = getattr(data, split).stream
    ends = np.fromfile(data.folder / f"{split}.ends", np.int64)
    assert (tokens[ends - 1] == data.separator).all()
    return [tokens[start : end - 1] for start, end in zip([0, *ends[:-1]], ends)]


# --- the same text


def test_tokens_that_are_bytes_are_the_byte_form(folder: Path, small: None) -> None:
    split: dict[str, list[bytes]] = {"train": [], "val": [], "test": []}
    for path in sorted(folder.rglob("*.txt")):
        split[split_of(path.relative_to(folder).as_posix().encode())].append(path.read_bytes())
    plain, data = ByteText(split, 8), files(folder)
    assert data.bytes_per_token == 1 and (data.vocab, data.separator, data.unit) == (256, 0, "byte")
    for name in ("train", "val", "test"):
        index = torch.tensor([0, len(getattr(plain, name)) - 1, -1])
        ours, theirs = getattr(data, name)[index], getattr(plain, name)[index]
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
        assert len(getattr(data, name)) == len(getattr(plain, name))
    for ours, theirs in (
        (data.windows(16, 64, 4, 30), plain.windows(16, 64, 4, 30)),
        (data.blocks(16, 64, 5), plain.blocks(16, 64, 5)),
    ):
        assert torch.equal(ours.inputs, theirs.inputs) and torch.equal(ours.targets, theirs.targets)
        assert torch.equal(ours.document, theirs.document) and ours.protocol == theirs.protocol


def test_a_trained_tokenizer_reads_back_what_it_wrote(folder: Path, small: None) -> None:
    data = files(folder, tokenizer="bpe")
    assert data.vocab == 300 and data.unit == "token" and data.train.stream.dtype == np.uint16
    for text in ("naïve café 😀", "a\n\n\n b  c\t\r\n", "\x00\x7f", "ends <|endoftext|> here", " "):
        assert data.decode(data.encode(text)) == text
        assert data.separator not in data.encode(text)
    for split in ("train", "val", "test"):
        texts = sorted(data.decode(tokens.tolist()).encode() for tokens in documents(data, split))
        paths = folder.rglob("*.txt")
        of_split = (path for path in paths if split_of(path.relative_to(folder).as_posix().encode()) == split)
        assert texts == sorted(path.read_bytes() for path in of_split)
    size = sum(len(data.decode(tokens.tolist()).encode()) for tokens in data.whole)
    assert data.bytes_per_token == size / sum(map(len, data.whole)) > 1.5
    windows = data.windows(16, 32, 4, 5)
    assert windows.protocol == "same 4 target tokens after up to 32 tokens of the same document"
    again = files(folder, "another", tokenizer="bpe")
    assert again.tokenizer.file == data.tokenizer.file and again.fingerprint() == data.fingerprint()
    kept = folder.parent / "kept.json"
    kept.write_text(data.kept["tokenizer.json"])
    assert files(folder, "third", tokenizer=str(kept)).fingerprint() == data.fingerprint()


def test_one_file_is_cut_between_characters(tmp_path: Path) -> None:
    text = "é😀" * 111  # of 2 and 4 bytes
    path = tmp_path / "input.txt"
    path.write_text(text, encoding="utf-8")
    data = files(path, tokenizer="bpe", vocab=260)
    parts = [data.decode(documents(data, split)[0].tolist()) for split in ("train", "val", "test")]
    assert "".join(parts) == text
    shares = np.cumsum([len(part.encode()) for part in parts]) / len(text.encode())
    assert np.abs(shares - [0.9, 0.95, 1]).max() < 4 / len(text.encode())


def test_a_long_document_is_cut_between_characters(small: None) -> None:
    for text in (("é😀" * 300).encode(), b"a line\n" * 100, b"\x80" * 500, b"short"):
        pieces, last = zip(*chunks.cut(text))
        assert b"".join(pieces) == text and max(map(len, pieces)) <= 200
        assert last == (*[False] * (len(last) - 1), True)
        assert text[0] == 0x80 or all(piece.decode() for piece in pieces)


# --- once


def test_an_interruption_costs_a_chunk(folder: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files(folder, "whole")
    assert whole.index["chunks"] > 5
    calls, original = [], Bytes.pieces

    def stopped(self: Bytes, pieces: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(self, pieces)

    monkeypatch.setattr(Bytes, "pieces", stopped)
    with pytest.raises(KeyboardInterrupt):
        files(folder)
    for path in (folder.parent / "cache").rglob("train.*"):
        with path.open("ab") as file:
            file.write(b"half a token")
    data = files(folder)
    assert len(calls) == whole.index["chunks"] + 1  # the one that failed, again, and none before it
    assert contents(data) == contents(whole) and data.fingerprint() == whole.fingerprint()
    files(folder)
    assert len(calls) == whole.index["chunks"] + 1


def test_two_processes_write_what_one_does(folder: Path, small: None) -> None:
    before = set(multiprocessing.active_children())
    one, two = files(folder, "one", tokenizer="bpe"), files(folder, "two", tokenizer="bpe", processes=2)
    assert contents(one) == contents(two) and one.index == two.index
    assert set(multiprocessing.active_children()) <= before


def test_one_process_makes_them_and_others_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    makers, original = folder.parent / "makers", packing.chunks

    def slow(usable: Any) -> Any:
        with makers.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.5)
        return original(usable)

    monkeypatch.setattr(packing, "chunks", slow)
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=files, args=(folder,)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len(makers.read_text().splitlines()) == 1


def test_the_fingerprint_is_that_of_the_tokens(folder: Path) -> None:
    data = files(folder)
    assert data.fingerprint() == files(folder, "other", context=4).fingerprint()
    assert data.fingerprint() != files(folder, tokenizer="bpe").fingerprint()
    moved = shutil.copytree(folder, folder.parent / "moved")
    assert files(moved).fingerprint() == data.fingerprint()
    path = next(moved.rglob("7.txt"))
    path.write_bytes(path.read_bytes().replace(b"the", b"The"))  # as long as before
    assert files(moved).fingerprint() != data.fingerprint()


def test_the_cache_is_where_the_user_has_his(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "xdg"))
    assert files(folder, context=8).folder.is_relative_to(folder.parent / "cache")
    assert TextFiles(str(folder), context=8).folder.is_relative_to(folder.parent / "xdg" / "poslab")
    with pytest.raises(UsageError, match=r"cannot be written .*data\.cache=FOLDER"):
        TextFiles(str(folder), context=8, cache=str(next(folder.rglob("7.txt"))))


# --- what cannot be


def test_what_cannot_be_read_is_counted(folder: Path) -> None:
    (folder / "1" / "broken.txt").write_bytes(b"\xff\xfe")
    (folder / "1" / "empty.txt").write_bytes(b"")
    with pytest.warns(UserWarning) as warned:
        data = files(folder, tokenizer="bpe")
    said = " ".join(str(warning.message) for warning in warned)
    assert "no UTF-8 are left out, 1 of them, such as" in said and "broken.txt" in said
    assert "empty documents are left out, 1 of them" in said
    assert sum(data.index[split]["documents"] for split in ("train", "val", "test")) == 60
    with pytest.warns(UserWarning, match="empty documents") as warned:
        data = files(folder)
    assert len(warned) == 1 and sum(data.index[split]["documents"] for split in ("train", "val", "test")) == 61


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pattern": "*.md"}, r"data=text_files finds no \*\.md in .*data\.folder=FOLDER"),
        ({"pattern": "/*.md"}, r"data\.pattern=/\*\.md cannot be read"),
        ({"pattern": "1/1*.txt"}, r"none of the 6 files .* falls into the test split. Join them into one file"),
        ({"context": 3000}, r"The val split holds \d+ bytes, a block of context=3000 needs 3001"),
        ({"context": 0}, "at least one token"),
        ({"tokenizer": "bpe", "vocab": 9000}, r"data\.vocab=9000: the training split gives \d+ tokens"),
        ({"tokenizer": "{folder}/1/1.txt"}, "describes no tokenizer of the tokenizers library"),
        ({"tokenizer": "nobody/nothing"}, r"data\.tokenizer=FOLDER/tokenizer\.json here; or data\.tokenizer=bpe"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    if "tokenizer" in options:
        options = options | {"tokenizer": options["tokenizer"].format(folder=folder)}
    with pytest.raises((ValueError, FileNotFoundError, UsageError), match=sentence):
        files(folder, **options)


def test_a_tokenizer_without_an_end_gets_one(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    path = tmp_path / "tokenizer.json"
    Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?")).save(str(path))
    tokenizer = load_tokenizer(str(tmp_path))
    assert (tokenizer.separator, tokenizer.vocab) == (3, 4)


# --- sets of the Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    return datasets


def rows_of(folder: Path, split: str, texts: list[str | None], datasets: Any) -> None:
    folder.mkdir(exist_ok=True)
    table = datasets.Dataset.from_dict({"text": texts, "number": [*range(len(texts))]})
    table.to_parquet(str(folder / f"{split}.parquet"))


def test_rows_are_documents_and_twins_stay_together(tmp_path: Path, hub: Any) -> None:
    texts = [document(number % 200).decode() for number in range(300)]
    rows_of(tmp_path / "set", "train", [*texts, None, ""], hub)
    (tmp_path / "set" / "LICENSE.txt").write_text("free")
    where = {"name": str(tmp_path / "set"), "context": 8, "cache": str(tmp_path / "cache"), "tokenizer": "bytes"}
    with pytest.warns(UserWarning, match="empty documents are left out, 2 of them"):
        data = HubText(**where, held_out=0.1, config="sample")
    split = {name: [tokens.tobytes() for tokens in documents(data, name)] for name in ("train", "val", "test")}
    assert sorted(text for each in split.values() for text in each) == sorted(text.encode() for text in texts)
    assert not set(split["train"]) & set(split["test"]) and not set(split["train"]) & set(split["val"])
    assert all(10 < len(split[name]) < 60 for name in ("val", "test"))  # about 30 each
    few = HubText(**where, held_out=0.1, limit=120)
    some = [tokens.tobytes() for name in split for tokens in documents(few, name)]
    assert sorted(some) == sorted(text.encode() for text in texts[:120])
    rows_of(tmp_path / "set", "validation", texts[:7], hub)
    official = HubText(**where, val="train", test="validation", held_out=0.1)
    assert [tokens.tobytes() for tokens in official.whole] == [text.encode() for text in texts[:7]]
    for options, sentence in (
        ({"text": "body"}, r"has no column body: choose data\.text from text, number"),
        ({"text": "number"}, "column number holds no text"),
        ({"held_out": 0.5}, r"data\.held_out=0\.5"),
        ({"test": "test"}, "cannot load split test of .*is there parquet, or text"),
        ({"name": "nobody/nothing"}, r"cannot load split train of nobody/nothing .* data\.name=FOLDER here"),
    ):
        with pytest.raises(ValueError, match=sentence):
            HubText(**where | options)


def test_once_tokenised_a_set_is_not_needed_again(tmp_path: Path, hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of(tmp_path / "set", "train", [document(number).decode() for number in range(100)], hub)
    local = hub.load_dataset
    with monkeypatch.context() as patch:
        patch.setattr(hub, "load_dataset", lambda name, *rest, **more: local(str(tmp_path / "set"), *rest, **more))
        words = {"name": "owner/name", "context": 8, "cache": str(tmp_path / "cache"), "tokenizer": "bpe", "vocab": 300}
        data = HubText(**words)
    assert HubText(**words).fingerprint() == data.fingerprint()
    with pytest.raises(ValueError, match="cannot load"):
        HubText(**words, revision="abc")


def test_the_lines_of_an_article_are_a_document(tmp_path: Path, hub: Any) -> None:
    lines = [
        "",
        " = First = \n",
        "",
        " text \n",
        "",
        " = = Part = = \n",
        " a = b = \n",
        "",
        " = Second = \n",
        "",
        " end \n",
    ]
    articles = [" = First = \n \n text \n \n = = Part = = \n a = b = \n \n", " = Second = \n \n end \n"]
    where = {"context": 4, "cache": str(tmp_path / "cache"), "tokenizer": "bytes", "val": "validation", "test": "test"}
    for split in ("train", "validation", "test"):
        rows_of(tmp_path / "set", split, list(lines), hub)
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / f"{split}.txt").write_text(" \n" + "".join(articles))
    for name in ("set", "files"):
        data = WikiText(str(tmp_path / name), **where)
        assert [tokens.tobytes().decode() for tokens in data.whole] == articles
        assert [tokens.tobytes().decode() for tokens in documents(data, "train")] == articles


# --- from the command line


def test_a_gpt_is_trained_measured_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = folder.parent
    words = [*GPT, "data=text_files", f"data.folder={folder}", "data.context=16", f"data.cache={here}/cache"]
    words += ["data.tokenizer=bpe", "data.vocab=300", f"runs={here}/runs", f"reports={here}/reports"]
    words += ["evaluate=[length,blocks]", "evaluate.length.sizes=[16,32]", "evaluate.length.targets=4"]
    words += ["evaluate.blocks.sizes=[16,32]", "evaluate.bootstrap=20"]
    check(Configs("train"), words)
    (folder / "0" / "empty.txt").touch()
    directory = fit(configuration(*words))
    assert "note: texts: empty documents are left out, 1 of them" in (directory / "train.log").read_text()
    run = load_run(directory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run.data.fingerprint() == run.summary["data_hash"]
    best = json.loads((directory / "summary.json").read_text())["last"]
    per_byte = math.log(2) * run.data.bytes_per_token
    assert best["bits_per_byte"] == pytest.approx(best["loss"] / per_byte)
    rows = list(csv.DictReader((here / "reports" / directory.name / "results.csv").open()))
    values = {(row["evaluator"], row["size"], row["metric"]): float(row["value"]) for row in rows if row["value"]}
    for evaluator in ("length", "blocks"):
        for size in ("16", "32"):
            loss = values[evaluator, size, "loss"]
            assert values[evaluator, size, "bits_per_byte"] == pytest.approx(loss / per_byte)
    assert any("every token of up to" in row["protocol"] for row in rows)
    shutil.rmtree(folder)
    shutil.rmtree(here / "cache")
    capsys.readouterr()
    assert generate([str(directory), "naïve 位置", "--tokens", "5"]) == 0
    assert capsys.readouterr().out.startswith("naïve 位置")
