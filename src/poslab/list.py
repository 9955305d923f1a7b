"""What can be chosen: python -m poslab.list [pos] [model] [data] ..."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .cli.configs import Configs
from .cli.pages import table


def main(groups: Sequence[str]) -> int:
    """Print a table for each group; 2 where one does not exist."""
    configs = Configs("train")
    for group in groups:
        if group not in configs.groups:
            print(f"{group}: there is no such group; there are {', '.join(configs.groups)}.", file=sys.stderr)
            return 2
    print("\n\n".join(table(configs, group) for group in groups or ("model", "pos", "data")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
