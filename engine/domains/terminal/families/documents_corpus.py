"""What the annual reports of the documents family are about: companies, sectors, figures, rates."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.domains.terminal.families.words import NAMES, THINGS

SECTORS = ("mining", "retail", "transport", "energy")
CURRENCIES = ("EUR", "CHF", "USD", "GBP")


class Spot(NamedTuple):
    """Which figure: of a company, of a year, 'revenue', 'costs' or 'staff'."""

    company: str
    year: int
    metric: str


@dataclass(frozen=True)
class Corpus:
    """The truth. Money is in thousands of the company's currency, ``rates`` are euros per unit."""

    years: tuple[int, ...]
    currency: Mapping[str, str]
    sectors: Mapping[str, tuple[str, int, str]]
    """company -> its sector, the first year of a later one (0: never), the later one."""
    figures: Mapping[Spot, int]
    rates: Mapping[tuple[int, str], float]
    used: set[Spot] = field(default_factory=set)

    def figure(self, company: str, year: int, metric: str) -> int:
        spot = Spot(company, year, metric)
        self.used.add(spot)
        return self.figures[spot]

    def euros(self, company: str, year: int) -> float:
        rate = self.rates[year, self.currency[company]]
        return self.figure(company, year, "revenue") * rate

    def margin(self, company: str, year: int) -> float:
        revenue = self.figure(company, year, "revenue")
        return 100 * (revenue - self.figure(company, year, "costs")) / revenue

    def members(self, sector: str, year: int) -> list[str]:
        return [
            company
            for company, (first, since, later) in self.sectors.items()
            if (later if since and year >= since else first) == sector
        ]


def draw(rng: random.Random, difficulty: int) -> Corpus:
    count, first = 3 + 2 * difficulty, rng.randrange(1990, 2018)
    years = tuple(range(first, first + 2 + difficulty // 2))
    names = [f"{name.capitalize()} {thing.capitalize()}" for name in NAMES for thing in THINGS]
    companies = rng.sample(names, count - 1)
    companies.append(f"{companies[0]} Holding")
    known = CURRENCIES[: 1 + min(difficulty, 3)]
    sectors = {}
    for number, company in enumerate(companies):
        moves = difficulty >= 3 and rng.random() < 0.3
        now, later = SECTORS[number % 2 if difficulty < 3 else number % 4], rng.choice(SECTORS)
        sectors[company] = (now, rng.choice(years[1:]) if moves else 0, later)
    figures = {}
    for company in companies:
        for year in years:
            revenue = 10 * rng.randrange(200, 9000)
            figures[Spot(company, year, "revenue")] = revenue
            figures[Spot(company, year, "costs")] = revenue * rng.randrange(55, 98) // 1000 * 10
            figures[Spot(company, year, "staff")] = rng.randrange(12, 900)
    rates = {
        (year, currency): 1.0 if currency == "EUR" else rng.randrange(7000, 13000) / 10000
        for year in years
        for currency in known
    }
    return Corpus(years, {c: rng.choice(known) for c in companies}, sectors, figures, rates)
