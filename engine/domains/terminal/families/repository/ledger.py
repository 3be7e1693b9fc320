"""Accounts and transfers between them."""

FEE = 2


def after(balances: dict[str, int], transfers: list[tuple[str, str, int]]) -> dict[str, int]:
    """The balances after transfers [source, target, amount], one after the other. The source pays
    FEE on top; one that lacks the money for both is left out. A new target starts at 0."""
    result = dict(balances)
    for source, target, amount in transfers:
        if result.get(source, 0) < amount + FEE:
            continue
        result[source] -= amount + FEE
        result[target] = result.get(target, 0) + amount
    return result


def richest(balances: dict[str, int]) -> list[str]:
    """The names of the accounts, the largest balance first, equal ones in alphabetical order."""
    return sorted(balances, key=lambda name: (-balances[name], name))
