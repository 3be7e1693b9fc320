"""Small counting questions for generated logs, and the teams that fail at them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

PLACES = (
    "the mill", "the harbour", "the north barn", "the school", "the depot", "the old market",
    "the clinic", "the station", "the castle", "the south pier", "the library", "the farm",
)  # fmt: skip
UNITS = ("crates", "boxes", "sacks", "jars", "trays", "baskets", "pallets", "bags")
GOODS = (
    "apples", "pears", "plums", "figs", "dates", "limes", "lemons", "melons", "grapes", "cherries",
    "beans", "peas", "carrots", "onions", "leeks", "beets", "turnips", "radishes", "peppers",
    "olives", "nuts", "almonds", "oats", "barley", "rye", "maize", "rice", "lentils", "hops",
    "candles", "nails", "screws", "ropes", "tiles", "bricks", "lamps", "cups", "plates", "bowls",
    "spoons", "towels", "socks", "gloves", "scarves", "buttons", "ribbons", "pencils", "brushes",
)  # fmt: skip
LESS = ("sold", "spoiled", "lost", "returned")
MORE = ("delivered late", "found in the yard", "lent to the neighbours")
TOPOLOGIES = ("managed", "pipeline", "debate", "peers")
POOLS: Mapping[str, tuple[str, ...]] = {
    "lead": ("Planner", "Coordinator", "Manager", "Organizer", "Moderator"),
    "source": ("Database", "Archive", "Records_Tool", "Ledger_API"),
    "reader": ("Clerk", "Scout", "Librarian", "Researcher"),
    "solver": ("Analyst", "Accountant", "Engineer", "Statistician", "Economist", "Surveyor"),
    "checker": ("Auditor", "Verifier", "Reviewer", "Critic"),
    "reporter": ("Writer", "Reporter", "Editor"),
    "client": ("User", "Client", "Customer"),
}
FEWEST, MOST = 30, 120
"""What the records say of one of the goods."""
_CHANGE = 2, 8


@dataclass(frozen=True)
class Puzzle:
    """How much of some goods there is in all, with ``change`` added at the end (0: nothing is).
    ``reason`` says why, ``stock`` what the records say of everything."""

    place: str
    unit: str
    goods: tuple[str, ...]
    change: int
    reason: str
    stock: Mapping[str, int]

    @property
    def question(self) -> str:
        asked = f"How many {self.unit} of {listed(self.goods)} are there in all at {self.place}"
        if not self.change:
            return f"{asked}?"
        word = "minus" if self.change < 0 else "plus"
        return f"{asked}, {word} {abs(self.change)} that were {self.reason}?"

    @property
    def answer(self) -> int:
        return sum(self.stock[name] for name in self.goods) + self.change


@dataclass(frozen=True)
class Cast:
    """Who does what. One agent may have several roles; ``solvers`` take turns."""

    topology: str
    lead: str
    source: str
    reader: str
    solvers: tuple[str, ...]
    checker: str
    reporter: str
    client: str
    team: tuple[str, ...] = field(default=())

    def other(self, rng: random.Random, than: str) -> str:
        """Some other member of the team."""
        return rng.choice([name for name in self.team if name != than])


def listed(names: tuple[str, ...]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def draw_puzzle(rng: random.Random, goods: int) -> Puzzle:
    """A question about so many goods."""
    stock = {name: rng.randint(FEWEST, MOST) for name in GOODS}
    change, reason = 0, ""
    if rng.random() < 0.5:
        less = rng.random() < 0.6
        change = rng.randint(*_CHANGE) * (-1 if less else 1)
        reason = rng.choice(LESS if less else MORE)
    chosen = tuple(rng.sample(GOODS, goods))
    return Puzzle(rng.choice(PLACES), rng.choice(UNITS), chosen, change, reason, stock)


def draw_cast(rng: random.Random) -> Cast:
    """A team in one of the topologies."""
    topology = rng.choice(TOPOLOGIES)
    names = {role: rng.sample(pool, len(pool)) for role, pool in POOLS.items()}
    lead, source, reader, checker, reporter, client = (
        names[role][0] for role in ("lead", "source", "reader", "checker", "reporter", "client")
    )
    solvers = tuple(names["solver"][: rng.randint(1, 3)])
    if topology == "managed":
        reporter = rng.choice((lead, reporter, reporter))
    elif topology == "pipeline":
        lead = reader = rng.choice((lead, reader))
    else:
        solvers = tuple(names["solver"][: rng.randint(2, 3)])
        reader, checker = solvers[0], solvers[-1]
        if topology == "peers":
            lead, reporter = rng.choice(solvers), rng.choice(solvers)
    team = tuple(dict.fromkeys((lead, reader, *solvers, checker, reporter)))
    return Cast(topology, lead, source, reader, solvers, checker, reporter, client, team)
