"""Packages that only some choices need."""

from importlib.util import find_spec

from .errors import UsageError


def need(package: str, choice: str, extra: str = "images") -> None:
    """UsageError, with what to install, where a package is missing that `choice` (key=word) wants."""
    if find_spec(package) is None:
        raise UsageError(f"{choice} needs the {package} package: pip install -e '.[{extra}]'.")
