"""No orphans: the process of a sweep's job, and those it starts for other devices, end with the one above them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PARENT = "POSLAB_PARENT"  # the process that must stay alive


def die_with_parent() -> None:
    """Under a parent that asked for it, ask the system (Linux) to be killed when that one is gone; else nothing."""
    if PARENT not in os.environ:
        return
    if sys.platform == "linux":
        set_parent_death_signal = 1  # linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != int(os.environ[PARENT]):  # gone before we could ask
        sys.exit(1)
    os.environ[PARENT] = str(os.getpid())
