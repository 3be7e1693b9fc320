"""What can be wrong in the code of a repository, how people notice it, and what shows it."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any, NamedTuple

from engine.domains.terminal.families.words import NAMES, THINGS, sentence


class Bug(NamedTuple):
    """``right`` stands once in the module and is replaced by ``wrong``."""

    module: str
    function: str
    right: str
    wrong: str
    symptom: str


BUGS = (
    Bug("pricing", "total", "quantity >= LARGE", "quantity > LARGE",
        "Customers whose order has exactly the size of a large one are charged the full price."),
    Bug("pricing", "total", "full * (100 - DISCOUNT_PERCENT) // 100",
        "full - full * DISCOUNT_PERCENT // 100",
        "Some large orders cost a cent more than they should."),
    Bug("pricing", "shares", "[share + 1] * rest + [share] * (people - rest)",
        "[share] * (people - rest) + [share + 1] * rest",
        "When an amount can't be split evenly, the wrong people pay the odd cents."),
    Bug("intervals", "merged", "in sorted(intervals):", "in intervals:",
        "Bookings that came in out of order aren't joined."),
    Bug("intervals", "merged", "max(found[-1][1], end)", "end",
        "Joined bookings are sometimes shorter than the longest of them."),
    Bug("intervals", "merged", "start <= found", "start < found",
        "Bookings that follow each other without a gap stay apart."),
    Bug("intervals", "free", "until - start >= GAP", "until - start > GAP",
        "Free times of the smallest useful length are missing."),
    Bug("intervals", "free", "start = max(start, busy_end)", "start = busy_end",
        "Times are called free although a longer booking covers them."),
    Bug("intervals", "overlap", "max(0, min(first[1], second[1]) - max(first[0], second[0]))",
        "min(first[1], second[1]) - max(first[0], second[0])",
        "Some sums of common hours come out too small, even below zero."),
    Bug("records", "parse", 'name, _, value = part.partition("=")',
        'name, _, value = part.rpartition("=")',
        "Values with a formula in them end up under strange names."),
    Bug("records", "parse", "value.strip()", "value.rstrip()",
        "Values that are compared with others never match, though they look the same."),
    Bug("records", "parse", "if part.strip():", "if part:",
        "Lines with a stray semicolon give a record with a nameless entry."),
    Bug("records", "shown", 'record[name] != ""', "record[name].isalnum()",
        "Entries with blanks or signs in them are lost on saving."),
    Bug("cache", "reads", "        self._kept.move_to_end(key)\n        return",
        "        return",
        "Entries that are read all the time are forgotten."),
    Bug("cache", "reads", "popitem(last=False)", "popitem()",
        "What was just stored can't be read back once the store is full."),
    Bug("cache", "reads", "        self._kept.move_to_end(key)\n        if len",
        "        if len",
        "Entries that were just written anew are forgotten before older ones."),
    Bug("wrapping", "lines", "len(line) + 1 + len(word) > WIDTH", "len(line) + len(word) > WIDTH",
        "Now and then a line is a letter too long for its column."),
    Bug("wrapping", "lines", "return [*result, line] if line else result",
        "return [*result, line] if len(line) > 1 else result",
        "Texts that end with a single letter lose it."),
    Bug("wrapping", "shortened", "text[: WIDTH - 3]", "text[:WIDTH]",
        "Shortened titles don't fit into their box."),
    Bug("wrapping", "shortened", "len(text) <= WIDTH", "len(text) < WIDTH",
        "Titles that just fit are shortened all the same."),
    Bug("paging", "page", "(number - 1) * PAGE : number * PAGE",
        "(number - 1) * PAGE : number * PAGE - 1",
        "Some items appear on no page at all."),
    Bug("paging", "page", "min(max(number, 1), pages(len(items)))", "max(number, 1)",
        "Old links to pages that are gone now show an empty page."),
    Bug("paging", "pages", "max(1, -(-count // PAGE))", "max(1, count // PAGE + 1)",
        "Some lists claim to have one page more than they do."),
    Bug("ordering", "order", "sorted(job for job, others in left.items() if not others)",
        "[job for job, others in left.items() if not others]",
        "Plans made from the same jobs differ with the order in which these were entered."),
    Bug("ordering", "order", "            left.setdefault(other, set())", "            pass",
        "Plans can't be made when a job needs one that isn't listed by itself."),
    Bug("ordering", "order", 'raise ValueError("a circle of jobs")', "break",
        "Jobs that need each other vanish from the plan without a word."),
    Bug("ordering", "levels", "1 + max((", "max((",
        "The depth of plans is always too small."),
    Bug("versions", "newest", "[int(part) for part in numbers", "[len(part) for part in numbers",
        "The newest version is often not found."),
    Bug("versions", "newest", "int(candidate) if candidate else 10**6",
        "int(candidate) if candidate else 0",
        "Candidates are taken for newer than their own release."),
    Bug("versions", "fits", "key(version)[0] == key(wanted)[0]", "True",
        "Programs are given versions that they can't work with."),
    Bug("versions", "fits", 'if "-rc" in version:', 'if "-rc1" in version:',
        "Some candidates are installed as if they were releases."),
    Bug("durations", "seconds", "    if number:\n", "    if number and not found:\n",
        "Spans with a forgotten unit are accepted, and are too short."),
    Bug("durations", "seconds", "DAY_HOURS * 3600", "24 * 3600",
        "Days of work are counted as if nobody slept."),
    Bug("durations", "shown", ' or "0s"', "",
        "Where nothing was spent, the column stays empty."),
    Bug("durations", "shown", "divmod(rest, 60)", "divmod(span, 60)",
        "Long spans are shown with far too many minutes."),
    Bug("readings", "median", "(len(values) - 1) // 2", "len(values) // 2",
        "The middle of some series is reported too high."),
    Bug("readings", "median", "sorted(values)[", "values[",
        "The middle of a series changes when the series is shuffled."),
    Bug("readings", "sums", "len(values) - WINDOW + 1", "len(values) - WINDOW",
        "The latest window is never shown."),
    Bug("readings", "longest_rise", "value > before", "value >= before",
        "A flat stretch is reported as a rise."),
    Bug("readings", "longest_rise", "min(1, len(values))", "0",
        "Series that never rise are said to be empty."),
    Bug("ledger", "after", "result.get(source, 0) < amount + FEE", "result.get(source, 0) < amount",
        "Some accounts end up below zero by a little."),
    Bug("ledger", "after", "result.get(target, 0) + amount", "balances.get(target, 0) + amount",
        "Of several payments to one account only the last arrives."),
    Bug("ledger", "richest", "(-balances[name], name)", "-balances[name]",
        "Accounts of the same balance change places from list to list."),
)  # fmt: skip

CONSTANTS: dict[str, dict[str, tuple[int, int]]] = {
    "pricing": {"LARGE_ORDER": (4, 30), "DISCOUNT_PERCENT": (3, 40)},
    "intervals": {"GAP": (2, 6)},
    "cache": {"SIZE": (2, 5)},
    "wrapping": {"WIDTH": (12, 40)},
    "paging": {"PAGE": (3, 9)},
    "durations": {"DAY_HOURS": (5, 10)},
    "readings": {"WINDOW": (2, 5)},
    "ledger": {"FEE": (1, 7)},
}
"""Of each module, what a repository may set otherwise: name -> lowest, highest."""


# --- arguments that the functions are called with ------------------------------------------------


def _interval(rng: random.Random) -> list[int]:
    start = rng.randrange(20)
    return [start, start + rng.randrange(1, 9)]


def _text(rng: random.Random) -> str:
    words = sentence(rng).split()[: rng.randrange(9)] + list(rng.choice(["", "", "a"]))
    return " ".join(words)


def _line(rng: random.Random) -> str:
    values = ("a b", "x=1", "", " y", f"{rng.randrange(99)}", rng.choice(NAMES))
    parts = [f" {rng.choice(THINGS[:6])} = {rng.choice(values)}" for _ in range(rng.randrange(4))]
    return rng.choice((";", "; ", " ; ;")).join(parts) + rng.choice(("", ";", "; ", " # note = 1"))


def _needs(rng: random.Random, circles: bool) -> dict[str, list[str]]:
    jobs = rng.sample(string.ascii_lowercase[:8], 6)
    needs = {}
    for number, job in enumerate(jobs[: rng.randrange(1, 6)]):
        others = jobs[number + 1 :]
        needs[job] = rng.sample(others, rng.randrange(min(3, len(others) + 1)))
    if circles and rng.random() < 0.2:
        needs[jobs[-1]] = [jobs[0], jobs[-1]]
    return needs


def _version(rng: random.Random) -> str:
    numbers = ".".join(str(rng.choice((1, 2, 10))) for _ in range(rng.randrange(1, 3)))
    return numbers + rng.choice(("", "", ".0", "-rc1", f"-rc{rng.randrange(2, 12)}"))


def _span(rng: random.Random) -> str:
    parts = [f"{rng.randrange(70)}{unit}" for unit in rng.sample("dhms", rng.randrange(1, 4))]
    return rng.choice(("", " ")).join(parts) + rng.choice(("", "", "", "5", "m", "x"))


def _size(rng: random.Random, around: int) -> int:
    return max(0, rng.choice((around - 1, around, around + 1, rng.randrange(4 * around))))


def _steps(rng: random.Random) -> list[list[Any]]:
    keys = string.ascii_lowercase[:6]
    return [[rng.choice(keys), rng.randrange(99)][: rng.randrange(1, 3)] for _ in range(25)]


def _transfers(rng: random.Random) -> list[Any]:
    names = NAMES[:4]
    balances = {name: rng.randrange(60) for name in names[:3]}
    moves = [[*rng.sample(names, 2), rng.randrange(1, 30)] for _ in range(rng.randrange(1, 7))]
    return [balances, moves]


def _series(rng: random.Random) -> list[int]:
    return [rng.randrange(1, 12) for _ in range(rng.randrange(9))]


ARGUMENTS: dict[str, Callable[[random.Random, int], list[Any]]] = {
    "pricing.total": lambda rng, size: [_size(rng, size), rng.randrange(1, 999)],
    "pricing.shares": lambda rng, size: [rng.randrange(500), rng.randrange(1, 9)],
    "intervals.overlap": lambda rng, size: [_interval(rng), _interval(rng)],
    "intervals.merged": lambda rng, size: [[_interval(rng) for _ in range(rng.randrange(6))]],
    "intervals.free": lambda rng, size: [[_interval(rng) for _ in range(rng.randrange(5))], 0, 30],
    "records.parse": lambda rng, size: [_line(rng)],
    "records.shown": lambda rng, size: [
        {thing: rng.choice(("", "7", "a b", "x=1")) for thing in rng.sample(THINGS, 4)}
    ],
    "cache.reads": lambda rng, size: [_steps(rng)],
    "wrapping.lines": lambda rng, size: [_text(rng)],
    "wrapping.shortened": lambda rng, size: ["x" * _size(rng, size)],
    "paging.pages": lambda rng, size: [size * rng.randrange(9) + rng.choice((0, 0, 1, 2))],
    "paging.page": lambda rng, size: [list(range(rng.randrange(30))), rng.randrange(-1, 9)],
    "ordering.order": lambda rng, size: [_needs(rng, circles=True)],
    "ordering.levels": lambda rng, size: [_needs(rng, circles=False)],
    "versions.newest": lambda rng, size: [[_version(rng) for _ in range(rng.randrange(1, 6))]],
    "versions.fits": lambda rng, size: [_version(rng), _version(rng)],
    "durations.seconds": lambda rng, size: [_span(rng)],
    "durations.shown": lambda rng, size: [rng.choice((0, 60, 3600, rng.randrange(20000)))],
    "readings.median": lambda rng, size: [_series(rng)],
    "readings.sums": lambda rng, size: [_series(rng)],
    "readings.longest_rise": lambda rng, size: [_series(rng)],
    "ledger.after": lambda rng, size: _transfers(rng),
    "ledger.richest": lambda rng, size: [
        {name: rng.randrange(4) for name in rng.sample(NAMES, rng.randrange(1, 7))}
    ],
}
"""``module.function`` -> arguments for a call; ``size`` is the module's first constant."""
