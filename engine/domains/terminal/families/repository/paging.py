"""Long lists page by page."""

PAGE = 5


def pages(count: int) -> int:
    """How many pages so many items take; an empty list has one, which is empty."""
    return max(1, -(-count // PAGE))


def page(items: list[int], number: int) -> list[int]:
    """The items of a page, the first of which is number 1. A number below 1 means the first page,
    one beyond the last the last."""
    number = min(max(number, 1), pages(len(items)))
    return items[(number - 1) * PAGE : number * PAGE]
