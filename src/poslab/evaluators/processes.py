"""One process that measures, or several that share the samples and all know every number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from .base import WHOLE, Measurement, Part, merge


@dataclass(frozen=True)
class Processes:
    """This process among those of a comparison: its device and its part of the samples."""

    device: torch.device
    part: Part = WHOLE

    @property
    def main(self) -> bool:
        """Whether it is the one that writes and speaks."""
        return self.part.rank == 0

    def gather(self, answer: Any) -> list[Any]:
        """The answers of all processes, in the order of their ranks, in each of them."""
        if self.part.world == 1:
            return [answer]
        answers = [None] * self.part.world
        dist.all_gather_object(answers, answer)
        return answers

    def combine(self, answer: Measurement | str | None) -> Measurement | str:
        """What all processes measured together, or the first status that says why one could not; None had no part."""
        answers = self.gather(answer)
        status = next((each for each in answers if isinstance(each, str)), None)
        return status or merge([each for each in answers if each is not None])

    def agree(self, answer: Any) -> Any:
        """The answer of the main process."""
        return self.gather(answer)[0]
