"""Questions to a trained model, a class each, and how their answers become one report. Read `base` first."""

from .attention import Attention
from .base import Evaluator, Measurement, Metric
from .blocks import Blocks
from .cost import Cost
from .length import Length
from .recall import Recall
from .resolution import Resolution
from .shift import Shift

EVALUATORS: dict[str, type[Evaluator]] = {
    each.name: each for each in (Resolution, Length, Blocks, Recall, Shift, Attention, Cost)
}

__all__ = [
    "EVALUATORS", "Attention", "Blocks", "Cost", "Evaluator", "Length", "Measurement", "Metric", "Recall", "Resolution",
    "Shift",
]  # fmt: skip
