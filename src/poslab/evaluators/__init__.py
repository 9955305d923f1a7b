"""Questions to a trained model, a class each, and how their answers become one report. Read `base` first."""

from .base import Evaluator, Measurement, Metric
from .length import Length
from .resolution import Resolution

EVALUATORS: dict[str, type[Evaluator]] = {each.name: each for each in (Resolution, Length)}

__all__ = ["EVALUATORS", "Evaluator", "Length", "Measurement", "Metric", "Resolution"]
