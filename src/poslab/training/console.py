"""Our lines, each once: on the terminal and in train.log. The libraries' advice nowhere."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

from rich.console import Console

from .opening import Opening

log = logging.getLogger("poslab")

IN_TABLE = "in_table"  # marks a record whose words a table on the terminal has said


class _ConsoleHandler(logging.Handler):
    """Prints above a bar that is being drawn."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        if record.__dict__.get(IN_TABLE):
            return
        self.console.print(record.getMessage(), markup=False, highlight=False)


def quiet() -> None:
    """Silence what Lightning says about itself; errors and other libraries' warnings still come through."""
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"lightning\..*")


def log_to(directory: Path, main: bool) -> Console:
    """Send the poslab logger to train.log and the terminal (the main process only); returns the terminal."""
    console = Console(file=sys.stderr, soft_wrap=True)
    log.setLevel(logging.INFO)
    log.propagate = False
    for handler in list(log.handlers):  # of the job before, in a sweep
        log.removeHandler(handler)
        handler.close()
    if not main:
        log.addHandler(logging.NullHandler())
        return console
    file = logging.FileHandler(directory / "train.log")
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log.addHandler(file)
    log.addHandler(_ConsoleHandler(console))
    return console


def announce(opening: Opening, console: Console) -> None:
    """What is about to be trained, once: a table on a terminal, lines elsewhere; train.log has the lines always."""
    if console.is_terminal:
        console.print(opening.table(), soft_wrap=False)  # what goes beyond the right edge of a table would break it
    for line in opening.lines():
        log.info(line, extra={IN_TABLE: console.is_terminal})
