"""Prices in cents."""

LARGE_ORDER = 10
DISCOUNT_PERCENT = 15


def total(quantity: int, unit_price: int) -> int:
    """The price of an order. One of LARGE_ORDER pieces or more gets DISCOUNT_PERCENT off, and what
    remains is rounded down to whole cents."""
    full = quantity * unit_price
    if quantity >= LARGE_ORDER:
        return full * (100 - DISCOUNT_PERCENT) // 100
    return full


def shares(amount: int, people: int) -> list[int]:
    """An amount split evenly: shares that differ by a cent at most, the larger ones first."""
    share, rest = divmod(amount, people)
    return [share + 1] * rest + [share] * (people - rest)
