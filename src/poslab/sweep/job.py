"""One job of a sweep: a process in a group of its own, its log, and what became of it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..parent import PARENT
from ..run import Run

REPORT = "POSLAB_REPORT"  # the file in which a job says how it gets on

WAITING, RUNNING, COMPLETE, SKIPPED = "waiting", "running", "complete", "skipped: complete"
INTERRUPTED, FAILED, NOT_STARTED = "interrupted", "failed", "not started"


@dataclass
class Job:
    """What to run, and how it went."""

    label: str  # the overrides that tell it from the others
    command: list[str]
    log: Path
    processes: int = 1  # on each node
    gpus: int = 0  # how many it asks for, on each node
    nodes: int = 1
    status: str = WAITING
    directory: Path | None = None  # of its run
    progress: dict[str, Any] = field(default_factory=dict)  # step, steps, loss
    seconds: float = 0.0
    taken: list[str] = field(default_factory=list)  # the GPUs that it has
    _process: subprocess.Popen[bytes] | None = None
    _told: bool = False

    @property
    def report(self) -> Path:
        return self.log.with_suffix(".json")

    @property
    def done(self) -> bool:
        return self.status in (COMPLETE, SKIPPED)

    @property
    def metrics(self) -> dict[str, float]:
        """The last validation of its run, {} before there is one."""
        return Run(self.directory).summary.get("last") or {} if self.directory else {}

    @property
    def last_line(self) -> str:
        """What it said last."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def start(self, environment: Mapping[str, str]) -> None:
        """From the thread that lives longest: the process is killed when that ends, whatever ends it."""
        with self.log.open("a") as log:
            log.write(f"$ {shlex.join(self.command)}\n")
            log.flush()
            self._process = subprocess.Popen(
                self.command,
                env={**os.environ, **environment, PARENT: str(os.getpid()), REPORT: str(self.report)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it through us, once
            )
        self._began = time.monotonic()
        self.status = RUNNING

    def look(self) -> bool:
        """Bring progress and status up to date; whether it has ended."""
        assert self._process is not None
        code = self._process.poll()
        self.seconds = time.monotonic() - self._began
        self.read_report()
        if code is None:
            return False
        self.report.unlink(missing_ok=True)
        if code:
            self.kill()  # whatever it left behind: processes of other devices, workers
        self.status = outcome(code, self._told)
        return True

    def read_report(self) -> None:
        """What it said last of its progress, and where it trains."""
        with suppress(FileNotFoundError):
            self.progress = json.loads(self.report.read_text())
            self.directory = Path(self.progress["directory"])

    def stop(self, signum: int) -> None:
        """Ask it to save and end."""
        assert self._process is not None
        self._told = True
        self._process.send_signal(signum)

    def kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def outcome(code: int, told: bool) -> str:
    """An exit status in words; `told`: after we asked it to end, so any end but success is an interruption."""
    if code == 0:
        return COMPLETE
    if told or code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
        return INTERRUPTED
    return f"killed by signal {-code}" if code < 0 else FAILED


def brief(metrics: Mapping[str, float]) -> str:
    """ "loss 0.123 accuracy 98.4 %" """
    return " ".join(
        f"{name} {100 * value:.1f} %" if name == "accuracy" else f"{name.replace('_', ' ')} {value:.3f}"
        for name, value in metrics.items()
    )
