"""From a configuration to a trained run: read `fit.py` first."""
