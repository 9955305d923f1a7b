"""hydra/sweeper=search: Optuna looks for the best value in an interval, once for each encoding that is swept.

Hydra imports this at every start: nothing heavy at the top.
"""

from __future__ import annotations

from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

KEYS = {
    "_target_": "hydra_plugins.poslab_sweeper.SearchSweeper",
    "trials": 20,  # of each search, those of an earlier start included
    "together": 1,  # trials of one search at a time; the searches themselves always run side by side
    "sampler": "tpe",  # tpe | gp | random
    "seed": 0,  # of the sampler
    "params": None,  # key: values, as an experiment sets them
}
ConfigStore.instance().store(group="hydra/sweeper", name="search", node=KEYS, provider="poslab")


class SearchSweeper(Sweeper):
    """Hands the command line to poslab.sweep.search."""

    def __init__(self, params: dict[str, str] | None, **settings: Any) -> None:
        self.params, self.settings = params or {}, settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.loader = hydra_context.config_loader
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        from poslab.optional import need

        need("optuna", "hydra/sweeper=search", "search")
        from poslab.sweep.search import search

        typed = [*(f"{key}={values}" for key, values in self.params.items()), *arguments]
        search(self.loader, typed, self.launcher, **self.settings)
