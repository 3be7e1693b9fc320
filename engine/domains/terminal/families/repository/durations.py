"""Spans of time as text: 2h05m, 45s."""

DAY_HOURS = 8


def seconds(text: str) -> int:
    """How many seconds, for parts with d (a working day of DAY_HOURS), h, m and s, in any order.
    Raises ValueError for anything else."""
    units = {"d": DAY_HOURS * 3600, "h": 3600, "m": 60, "s": 1}
    found, number = 0, ""
    for letter in text.replace(" ", ""):
        if letter.isdigit():
            number += letter
        elif letter in units and number:
            found += int(number) * units[letter]
            number = ""
        else:
            raise ValueError(f"not a span of time: {text}")
    if number:
        raise ValueError(f"no unit at the end: {text}")
    return found


def shown(span: int) -> str:
    """The shortest text of so many seconds in h, m and s: parts that are 0 are left out, but for
    0 itself, which is 0s."""
    hours, rest = divmod(span, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "m"), (left, "s")]
    return "".join(f"{value}{unit}" for value, unit in parts if value) or "0s"
