"""python -m poslab.gallery WORD"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from . import __doc__ as usage
from . import draw, draw_run, sheet


def main(arguments: Sequence[str]) -> int:
    """Draw, and say where; 2 with a sentence where there is nothing to draw."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return 0 if arguments else 2
    word, *overrides = arguments
    try:
        if word == "all":
            figure, path = sheet(), Path("docs/figures/gallery.png")
        elif (Path(word) / "config.yaml").exists():
            figure, path = draw_run(Path(word)), Path("gallery") / f"{Path(word).resolve().name}.png"
        else:
            name = "_".join([word, *overrides]).replace("/", ".")
            figure, path = draw(word, *overrides), Path("gallery") / f"{name}.png"
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
