"""Models are captured whole, and a new size is not a new graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, fx

from poslab.positions import PositionEncoding, Positions

from . import build
from .build import GRID, Setting

SIZES: dict[bool, list[tuple[int, ...]]] = {
    True: [(24,), (17,), (9,), (21,), (13,)],
    False: [GRID, (3, 5), (5, 8), (7, 4), (6, 6)],
}


class Counter:
    """A backend that runs graphs as they are and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: fx.GraphModule, example: list[Tensor]) -> Callable[..., object]:
        self.graphs += 1
        return graph.forward


@pytest.fixture(autouse=True)
def no_trace_records() -> Iterator[None]:
    """pytest listens to all records, and the compiler formats thousands for it: most of the time of a test."""
    loggers = [logging.getLogger(name) for name in ("torch.__trace", "torch._dynamo")]
    for logger in loggers:
        logger.disabled = True
    yield
    for logger in loggers:
        logger.disabled = False


def check_graphs(word: str | build.Factory, setting: Setting, gradients: bool) -> None:
    torch._dynamo.reset()
    by_turns = isinstance(word, str) and "-" in word
    depth = 2 if by_turns or build.encoding(word, setting).per_layer else 1  # a second layer may be another encoding
    model = build.model(word, setting, depth=depth)
    if not model.trunk.encoding.unbounded and not setting.causal:
        pytest.skip(f"{word}: unbounded=False, other grids lie beyond")
    counter = Counter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    with torch.set_grad_enabled(gradients):
        for size in SIZES[setting.causal]:
            x = build.inputs(setting, size)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert counter.graphs <= 2, f"{counter.graphs} graphs for {len(SIZES[setting.causal])} sizes"


@pytest.mark.parametrize("word, setting", build.model_cases((build.TEXT, build.IMAGE)))
def test_two_graphs_for_five_sizes(word: str, setting: Setting) -> None:
    check_graphs(word, setting, gradients=True)


def test_a_graph_a_length_is_seen() -> None:
    """Could it fail? A loop over the tokens is unrolled for each length."""

    class Loops(PositionEncoding):
        unbounded = True

        def embed(self, pos: Positions) -> Tensor:
            return torch.stack([torch.full((self.spec.dim,), 0.1 * t) for t in range(len(pos))])

    with pytest.raises(AssertionError, match="5 graphs for 5 sizes"):
        check_graphs(Loops, build.TEXT, gradients=True)


@pytest.mark.full
@pytest.mark.parametrize("word, setting", build.model_cases())
def test_two_graphs_for_five_sizes_in_evaluation(word: str, setting: Setting) -> None:
    check_graphs(word, setting, gradients=False)
