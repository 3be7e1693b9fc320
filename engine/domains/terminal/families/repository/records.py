"""Records as lines of text: ``name = value; name = value``."""

COMMENT = "#"


def parse(line: str) -> dict[str, str]:
    """A record of one line. Blanks around names and values don't count, empty parts are skipped,
    what follows COMMENT is ignored, and a value may hold '='. The last of equal names counts."""
    record = {}
    for part in line.split(COMMENT, 1)[0].split(";"):
        if part.strip():
            name, _, value = part.partition("=")
            record[name.strip()] = value.strip()
    return record


def shown(record: dict[str, str]) -> str:
    """The line of a record, its names in alphabetical order, without those whose value is empty."""
    return "; ".join(f"{name} = {record[name]}" for name in sorted(record) if record[name] != "")
