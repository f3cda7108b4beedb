"""Make one story from a seed."""

import random

from . import plots_days, plots_home, plots_small, plots_town, plots_wonder, plots_wood
from .variety import vary
from .world import World

PLOTS = plots_days.PLOTS + plots_home.PLOTS + plots_town.PLOTS + plots_wood.PLOTS + plots_wonder.PLOTS + plots_small.PLOTS

# Plots whose text says 'one day' itself, so that the opening may name the morning instead.
DATED = {plot for plot in PLOTS if any("{day}" in str(c) for c in plot.__code__.co_consts)}


def tell(seed):
    """The text of story number seed: paragraphs separated by single line ends."""
    rng = random.Random(seed)
    while True:
        world = World(rng)
        plot = rng.choice(PLOTS)
        world.dated = plot in DATED
        try:
            plot(world)
        except LookupError:  # no character fits this place: start again
            continue
        return vary(rng, world.text())
