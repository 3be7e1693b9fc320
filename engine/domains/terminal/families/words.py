"""Words that generated tasks are made of."""

from __future__ import annotations

import random

NAMES = (
    "abel", "bruno", "carla", "dora", "emil", "frida", "georg", "hanna", "ivan", "jonas", "karin",
    "linus", "marta", "nils", "olga", "petra", "quirin", "rosa", "sven", "tilda", "ulla", "viktor",
)  # fmt: skip
THINGS = (
    "anchor", "basket", "candle", "drum", "engine", "fabric", "garden", "hammer", "island",
    "jacket", "kettle", "ladder", "mirror", "needle", "orchard", "pencil", "quarry", "ribbon",
    "saddle", "timber", "umbrella", "valve", "window", "yarn",
)  # fmt: skip
_VERBS = ("carries", "follows", "repairs", "measures", "paints", "counts", "stores", "covers")


def sentence(rng: random.Random) -> str:
    """A plain sentence that says nothing of importance."""
    subject, thing = rng.choice(NAMES).capitalize(), rng.choice(THINGS)
    return f"{subject} {rng.choice(_VERBS)} the {rng.choice(THINGS)} beside the {thing}."
