"""How much memory something takes, counted by the allocator and not by the system."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most bytes that tensors on the CPU hold at once during `work`, above what they held before.

    Every allocation, also within an operator, as the profiler sees it: the same number in every run. `work` frees
    nothing that was there before, whose size the profiler does not know.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    changes = sorted((each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]")
    return max(accumulate(size for _, size in changes), default=0)
