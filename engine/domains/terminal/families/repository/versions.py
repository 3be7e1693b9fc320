"""Version numbers such as 1.10.2 and 2.0-rc1."""


def key(version: str) -> tuple[int, ...]:
    """What versions are sorted by: its numbers, missing ones being 0; a candidate (-rcN) comes
    before its release."""
    numbers, _, candidate = version.partition("-rc")
    parts = [int(part) for part in numbers.split(".")]
    parts += [0] * (4 - len(parts))
    return (*parts, int(candidate) if candidate else 10**6)


def newest(versions: list[str]) -> str:
    """The newest; of equal ones the first."""
    return max(versions, key=key)


def fits(version: str, wanted: str) -> bool:
    """Whether a release is ``wanted`` or newer and has the same first number; no candidate fits."""
    if "-rc" in version:
        return False
    return key(version) >= key(wanted) and key(version)[0] == key(wanted)[0]
