"""What generated databases are about: tables, columns and the values that rows draw from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """A column: ``values`` for text, ``low`` and ``high`` for numbers. ``said`` is its name in a
    question."""

    name: str
    said: str
    values: tuple[str, ...] = ()
    low: int = 0
    high: int = 0

    @property
    def numeric(self) -> bool:
        return not self.values


@dataclass(frozen=True)
class Subject:
    """A pair of tables: ``many`` rows each belong to one of ``one``. Both have a name column."""

    one: str
    many: str
    one_fields: tuple[Field, ...]
    many_fields: tuple[Field, ...]


def _text(name: str, *values: str) -> Field:
    return Field(name, name.replace("_", " "), values)


def _number(name: str, low: int, high: int) -> Field:
    return Field(name, name.replace("_", " "), (), low, high)


_NAMES = """\
Ada Bela Chen Dora Emil Fern Gus Hana Ivo Juno Kai Lena Milo Nora Otto Pia Quin Rosa Sven
Tara Udo Vera Wim Xena Yuri Zoe Alba Boris Clara Dino Elsa Finn Greta Hugo Iris Jonas
"""
NAMES = tuple(_NAMES.split())
_CITY = _text("city", "Oslo", "Lima", "Cairo", "Quito", "Porto", "Perth", "Delhi")
_COUNTRY = _text("country", "Peru", "Norway", "Egypt", "India", "Chile", "Kenya")
_COLOR = _text("color", "red", "blue", "green", "black", "white")
_LEVEL = _text("level", "basic", "middle", "high")
_AGE = _number("age", 18, 70)
_SALARY = _number("salary", 1000, 9000)
_PRICE = _number("price", 5, 500)
_YEAR = _number("year", 1960, 2024)
_RATING = _number("rating", 1, 10)
_SIZE = _number("size", 10, 900)
_WEIGHT = _number("weight", 1, 90)
_PHONE = _number("phone", 100000, 999999)
_BUDGET = _number("budget", 100, 9900)

SUBJECTS = (
    Subject("shop", "product", (_CITY, _SIZE, _RATING), (_PRICE, _COLOR, _WEIGHT)),
    Subject("school", "student", (_CITY, _BUDGET, _YEAR), (_AGE, _LEVEL, _PHONE)),
    Subject("clinic", "doctor", (_CITY, _SIZE, _PHONE), (_AGE, _SALARY, _LEVEL)),
    Subject("team", "player", (_COUNTRY, _BUDGET, _YEAR), (_AGE, _SALARY, _WEIGHT)),
    Subject("museum", "painting", (_COUNTRY, _SIZE, _RATING), (_YEAR, _PRICE, _COLOR)),
    Subject("bookshop", "book", (_CITY, _SIZE, _PHONE), (_YEAR, _PRICE, _RATING)),
    Subject("farm", "animal", (_COUNTRY, _SIZE, _BUDGET), (_WEIGHT, _AGE, _COLOR)),
    Subject("garage", "car", (_CITY, _RATING, _PHONE), (_YEAR, _PRICE, _COLOR)),
    Subject("airline", "pilot", (_COUNTRY, _RATING, _BUDGET), (_AGE, _SALARY, _PHONE)),
    Subject("hotel", "room", (_CITY, _RATING, _PHONE), (_SIZE, _PRICE, _LEVEL)),
    Subject("band", "album", (_COUNTRY, _YEAR, _RATING), (_YEAR, _PRICE, _RATING)),
    Subject("studio", "movie", (_COUNTRY, _BUDGET, _YEAR), (_YEAR, _RATING, _BUDGET)),
)

ROLES = ("User_1", "User_2", "User_3", "User_4")
"""The data set's own role names; which of them may do what is drawn for each database."""
