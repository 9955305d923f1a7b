"""From text to tokens and back: single bytes, or pieces of words by Hugging Face's `tokenizers`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import UsageError
from ..optional import need

END = "<|endoftext|>"  # of a document, as in GPT-2
ENDS = (END, "<|end_of_text|>", "</s>", "<eos>", "[SEP]")  # how tokenizers call it


class Tokenizer(Protocol):
    """What a text data set asks of a tokenizer.

    `unit`: what a token is called. `separator`: the token that ends a document. `reads`: whether it can
    encode a document. `file`: all of it as text, to keep; None where there is nothing to keep.
    """

    vocab: int
    unit: str
    separator: int
    file: str | None

    def reads(self, document: bytes) -> bool: ...

    def pieces(self, pieces: Sequence[bytes]) -> list[np.ndarray]:
        """The tokens of each of several pieces of documents."""
        ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: list[int]) -> str: ...


class Bytes:
    """Every byte is a token; byte zero ends a document."""

    vocab, unit, separator = 256, "byte", 0
    file: str | None = None

    def reads(self, document: bytes) -> bool:
        return True

    def pieces(self, pieces: Sequence[bytes]) -> list[np.ndarray]:
        return [np.frombuffer(piece, np.uint8) for piece in pieces]

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")


class Subwords:
    """A tokenizer of the `tokenizers` library, from the text of its tokenizer.json.

    Its own token for the end of a text ends a document; where it has none of the usual names it gets one.
    Such a word in a document is text like any other. ValueError where the text describes no tokenizer.
    """

    unit = "token"

    def __init__(self, file: str, source: str = "tokenizer.json") -> None:
        import tokenizers

        try:
            self.inner = tokenizers.Tokenizer.from_str(file)
        except Exception as error:  # the library has no class of its own for it
            raise ValueError(f"{source} describes no tokenizer of the tokenizers library: {error}.") from error
        self.inner.no_truncation()
        self.inner.no_padding()
        self.inner.encode_special_tokens = True
        if not any(self.inner.token_to_id(end) is not None for end in ENDS):
            self.inner.add_special_tokens([END])
        found = (self.inner.token_to_id(end) for end in ENDS)
        self.separator: int = next(number for number in found if number is not None)
        self.vocab = 1 + max(self.inner.get_vocab().values())
        self.file: str | None = file

    def reads(self, document: bytes) -> bool:
        return is_text(document)

    def pieces(self, pieces: Sequence[bytes]) -> list[np.ndarray]:
        texts = [piece.decode() for piece in pieces]
        return [np.array(found.ids) for found in self.inner.encode_batch_fast(texts, add_special_tokens=False)]

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: list[int]) -> str:
        return self.inner.decode(tokens, skip_special_tokens=False)


def load_tokenizer(word: str) -> Tokenizer:
    """`bytes`, the path of a tokenizer.json, or the name of a model on the Hub that has one.

    UsageError where there is none, with what to put where.
    """
    if word == "bytes":
        return Bytes()
    need("tokenizers", f"data.tokenizer={word}", "text")
    path = Path(word).expanduser()
    if path.is_dir():
        path /= "tokenizer.json"
    return Subwords((path if path.is_file() else downloaded(word)).read_text("utf-8", errors="replace"), word)


def downloaded(word: str) -> Path:
    """The tokenizer.json of a model on the Hub, from its cache where it is there."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(word, "tokenizer.json"))
    except (OSError, ValueError) as error:  # what it raises has no common class
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise UsageError(
            f"data.tokenizer={word} is no file, and the Hub does not give the tokenizer of such a model ({reason}). "
            f"Without a network, `hf download {word} tokenizer.json --local-dir FOLDER` where there is one, and "
            "data.tokenizer=FOLDER/tokenizer.json here; or data.tokenizer=bpe, which is trained on your text."
        ) from error


def trained(texts: Iterable[str], vocab: int) -> str:
    """The tokenizer.json of a byte-level BPE of `vocab` tokens: GPT-2's, Radford et al. 2019, section 2.2.

    The same texts give the same tokenizer. ValueError where they give fewer tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    if (found := inner.get_vocab_size()) != vocab:
        raise ValueError(f"data.vocab={vocab}: the training split gives {found} tokens; use {found}, or at least 257.")
    return inner.to_str()


def is_text(document: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return True


def hashed(*parts: Any) -> str:
    """A hash of anything that can be printed."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
