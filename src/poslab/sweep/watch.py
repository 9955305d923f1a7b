"""What a person sees of a sweep: a live line a job in a terminal, a line at start and end in a file; then a table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..evaluators.table import make_console
from ..files import shown
from .job import FAILED, RUNNING, Job, brief


class Watch:
    """Follows `jobs` on `console`; a context, because a live display has to be taken down."""

    def __init__(self, jobs: Sequence[Job], console: Console | None = None) -> None:
        self.jobs, self.console = jobs, console or make_console()
        self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def __enter__(self) -> Watch:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def started(self, job: Job) -> None:
        if not self.console.is_terminal:
            gpus = f" on GPU {','.join(job.taken)}" if job.taken else ""
            self.say(f"started  {job.label}{gpus}")

    def stopping(self, running: Sequence[Job], killed: bool) -> None:
        what = "killed" if killed else "asked to save and end; once more kills"
        self.say(f"stopping: {len(running)} of {len(self.jobs)} jobs run, {what}")

    def ended(self, job: Job) -> None:
        if job.done:
            self.say(f"finished {job.label}: {', '.join(filter(None, (brief(job.metrics), f'{job.seconds:.0f} s')))}")
        else:
            self.say(f"{job.status:8} {job.label}{reason(job)}; log {shown(job.log)}")

    def refresh(self) -> None:
        if self.console.is_terminal and time.monotonic() - self._drawn > 0.5:
            self._live.update(lines(self.jobs), refresh=True)
            self._drawn = time.monotonic()


def lines(jobs: Sequence[Job]) -> Group:
    """A line for each job that runs and one that counts all."""
    table = Table.grid(padding=(0, 2))
    for job in jobs:
        if job.status == RUNNING:
            step, loss = job.progress.get("step"), job.progress.get("loss")
            where = "starting" if step is None else f"step {step:,} of {job.progress['steps']:,}"
            table.add_row(Text(job.label), where, "" if loss is None else f"loss {loss:.3f}", f"{job.seconds:.0f} s")
    counts = Counter(job.status for job in jobs)
    return Group(table, Text(f"{len(jobs)} jobs: {', '.join(f'{n} {status}' for status, n in counts.items())}"))


def reason(job: Job) -> str:
    """Why it failed, in its own last words."""
    return f": {job.last_line}" if job.status == FAILED else ""


def print_table(console: Console, jobs: Sequence[Job]) -> None:
    """A row a job: status, last validation, seconds, and where to look."""
    table = Table(box=box.SIMPLE)
    for column in ("job", "status", "validation"):
        table.add_column(column)
    table.add_column("seconds", justify="right")
    table.add_column("run, or log where it ended badly", overflow="fold")
    for job in jobs:
        found = [path for path in (job.directory if job.done else None, job.log) if path and path.exists()]
        place = shown(found[0]) if found else ""
        seconds = f"{job.seconds:.0f}" if job.seconds else ""
        style = "" if job.done else "bold"
        table.add_row(*(Text(cell, style) for cell in (job.label, job.status, brief(job.metrics), seconds, str(place))))
    console.print(table, end="")
