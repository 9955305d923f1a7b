"""How far a long reading is: a bar in a terminal, a line every half a minute in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column


class Meter:
    """`with Meter("tokenising", total) as meter: meter.at(done)`, in bytes; `total` is None where nobody knows."""

    def __init__(self, title: str, total: int | None, pause: float = 30.0) -> None:
        self.title, self.total, self.pause = title, total, pause
        console = Console(file=sys.stderr, soft_wrap=True)
        self._progress = Progress(
            TextColumn(title),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            expand=True,
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=total, note="")
        self._first: tuple[float, int] | None = None
        self._said = time.monotonic()

    def at(self, done: int) -> None:
        """So many bytes are done; those of the first call were before."""
        now = time.monotonic()
        self._first = self._first or (now, done)
        rate = (done - self._first[1]) / max(now - self._first[0], 1e-9)
        note = f"{done / 1e6:,.0f} MB" + (f" of {self.total / 1e6:,.0f}" if self.total else "")
        note += f", {rate / 1e6:,.1f} MB/s"
        self._progress.update(self._task, completed=done, note=note)
        if self._progress.disable and now - self._said > self.pause:
            self._said = now
            print(f"{self.title}: {note}", file=sys.stderr, flush=True)

    def __enter__(self) -> Meter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
