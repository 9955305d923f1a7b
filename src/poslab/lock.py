"""A file that one process holds: the system lets go of it when the process ends, even after kill -9."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import UsageError

_held: list[IO[str]] = []


def _forget() -> None:
    for file in _held:
        file.close()


os.register_at_fork(after_in_child=_forget)  # a worker that outlives us for a moment would keep the lock


@contextmanager
def held(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file `path` as long as the block lasts.

    UsageError where another process does: `busy` is the sentence, with {process} for its number.
    """
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UsageError(busy.format(process=file.read())) from None
        with _signed(file):
            yield


@contextmanager
def in_turn(path: Path, waits: str) -> Iterator[None]:
    """Hold the lock file `path` as long as the block lasts, after whoever holds it now.

    `waits` is what is said, with its number, where that is another process.
    """
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            print(f"{waits} (process {file.read()})", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        with _signed(file):
            yield


@contextmanager
def _signed(file: IO[str]) -> Iterator[None]:
    """Say in a lock file who holds it, and let children forget it."""
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    _held.append(file)
    try:
        yield
    finally:
        _held.remove(file)


def is_held(path: Path) -> bool:
    """Whether a process that lives holds the lock file `path`."""
    if not path.exists():
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
