"""Documents cut into chunks, and chunks turned into tokens by several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np

from ..parent import PARENT, die_with_parent
from .tokenizer import Tokenizer

SPLITS = ("train", "val", "test")
PIECE = 2**20  # bytes of a document that are encoded in one piece
CHUNK = 2**24  # bytes that a process is given at once

Chunk = list[tuple[str, bytes, bool]]  # (split, piece, whether it ends its document)
Packed = dict[str, tuple[np.ndarray, np.ndarray, int]]  # split -> tokens, ends of documents in them, bytes


def chunks(documents: Iterable[tuple[str, bytes]]) -> Iterator[Chunk]:
    """Documents in pieces, joined to chunks that depend on the documents alone."""
    chunk: Chunk = []
    size = 0
    for split, document in documents:
        for piece, last in cut(document):
            chunk.append((split, piece, last))
            size += len(piece)
            if size >= CHUNK:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk


def cut(document: bytes) -> Iterator[tuple[bytes, bool]]:
    """(piece, whether it is the last): of at most PIECE bytes, up to the end of a line where there is one."""
    start = 0
    while len(document) - start > PIECE:
        end = document.rfind(b"\n", start, start + PIECE) + 1 or whole_character(document, start + PIECE)
        yield document[start:end], False
        start = end
    yield document[start:], True


def whole_character(text: bytes, place: int) -> int:
    """The nearest place up to `place` that is not inside a character of UTF-8; `place` where it is no UTF-8."""
    return next((at for at in range(place, max(place - 4, 0), -1) if text[at] & 0xC0 != 0x80), place)


def encoded(
    all_chunks: Iterator[Chunk], done: int, tokenizer: Tokenizer, kind: np.dtype, processes: int
) -> Iterator[Packed]:
    """Each chunk behind the first `done`, encoded, in order."""
    rest = (chunk for number, chunk in enumerate(all_chunks) if number >= done)
    if processes == 1:
        yield from (encode(tokenizer, kind, chunk) for chunk in rest)
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), worker)
    waiting: deque[Future[Packed]] = deque()
    try:
        for chunk in rest:
            waiting.append(pool.submit(encode, tokenizer, kind, chunk))
            if len(waiting) > 2 * processes:  # no more of the text in memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def encode(tokenizer: Tokenizer, kind: np.dtype, chunk: Chunk) -> Packed:
    """The tokens of a chunk by split."""
    found = tokenizer.pieces([piece for _, piece, _ in chunk])
    result: Packed = {}
    for split in SPLITS:
        tokens, ends, length, size = [np.empty(0, kind)], [], 0, 0
        for (where, piece, last), ids in zip(chunk, found):
            if where == split:
                tokens.append(np.append(ids, tokenizer.separator) if last else ids)
                length, size = length + len(tokens[-1]), size + len(piece)
                if last:
                    ends.append(length)
        result[split] = np.concatenate(tokens).astype(kind), np.array(ends, np.int64), size
    return result


def worker() -> None:
    """Begin a process of the pool: it leaves Ctrl-C to its parent, ends with it, and has one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ[PARENT] = str(os.getppid())
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    die_with_parent()
