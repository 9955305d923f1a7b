"""Run jobs until all have ended, whatever happens to any of them."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .job import NOT_STARTED, WAITING, Job
from .pool import Pool
from .watch import Watch

PAUSE = 0.1  # seconds between two looks


@contextmanager
def heard() -> Iterator[list[int]]:
    """SIGINT and SIGTERM as they come: within the block they do nothing but stand in this list."""
    signals: list[int] = []
    stopping = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, lambda got, _: signals.append(got)) for number in stopping}
    try:
        yield signals
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run_jobs(jobs: Sequence[Job], pool: Pool, watch: Watch) -> int:
    """Run those that wait; returns the signal that ended it early, or 0.

    The first SIGINT or SIGTERM goes to every job that runs, which saves and ends; a second one kills them.
    """
    heeded = 0
    waiting = [job for job in jobs if job.status == WAITING]
    running: list[Job] = []
    with heard() as signals:
        try:
            while running or (waiting and not signals):
                while waiting and not signals and (environment := pool.take(waiting[0])) is not None:
                    job = waiting.pop(0)
                    job.start(environment)
                    running.append(job)
                    watch.started(job)
                for signum in signals[heeded:]:
                    for job in running:
                        job.kill() if heeded else job.stop(signum)
                    heeded += 1
                    watch.stopping(running, killed=heeded > 1)
                for job in [job for job in running if job.look()]:
                    running.remove(job)
                    pool.give_back(job)
                    watch.ended(job)
                watch.refresh()
                time.sleep(PAUSE)
        finally:
            for job in running:
                job.kill()
    for job in waiting:
        job.status = NOT_STARTED
    return signals[0] if signals else 0
