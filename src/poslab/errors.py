"""The exceptions that are meant for a person; importing them costs nothing."""

import signal


class UsageError(Exception):
    """A sentence for the person at the command line, with the fix in it; shown without a traceback."""


class Interrupted(Exception):
    """Training stopped at a signal after a checkpoint was saved; `code` is the exit status, 128 + signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.code = 128 + signum


class JobFailed(Exception):
    """A job of a sweep did not end well; the sweep's table has said so."""
