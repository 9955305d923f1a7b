"""Compare trained runs in a report: python eval.py runs='runs/*'. Choices: --help."""

from typing import Any

from poslab.cli import main


def evaluate(config: dict[str, Any]) -> None:
    from poslab.comparison import compare  # seconds of imports, once the command line is right

    compare(config)


if __name__ == "__main__":
    main(evaluate, "eval")
