"""Questions to a trained model, a class each, and how their answers become one report. Read `base` first."""

from .base import Evaluator, Measurement, Metric
from .blocks import Blocks
from .length import Length
from .recall import Recall
from .resolution import Resolution

EVALUATORS: dict[str, type[Evaluator]] = {each.name: each for each in (Resolution, Length, Blocks, Recall)}

__all__ = ["EVALUATORS", "Blocks", "Evaluator", "Length", "Measurement", "Metric", "Recall", "Resolution"]
