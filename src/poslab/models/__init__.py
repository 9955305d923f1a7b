"""GPT and ViT around one trunk. Read `transformer.py` first."""

from .cache import Cache
from .gpt import GPT
from .transformer import Transformer
from .vit import ViT

__all__ = ["GPT", "Cache", "Transformer", "ViT"]
