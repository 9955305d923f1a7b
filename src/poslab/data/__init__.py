"""Data sets in pure torch; `module.py`, at the edge of the folder, is the Lightning side."""

from .images import ImageData, ImageSplit
from .text import TextData

__all__ = ["ImageData", "ImageSplit", "TextData"]
