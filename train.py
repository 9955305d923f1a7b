"""Train one model, or with -m a sweep of them: python train.py model=vit pos=rope2d. Choices: --help."""

from typing import Any

from poslab.cli import main


def train(config: dict[str, Any]) -> None:
    from poslab.training.fit import fit  # seconds of imports, once the command line is right

    fit(config)


if __name__ == "__main__":
    main(train, "train")
