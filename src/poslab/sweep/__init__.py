"""Many runs at once, each a process of its own: read `run.py` first. Nothing here imports Lightning."""
