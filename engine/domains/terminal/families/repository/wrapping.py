"""Text in lines of limited width."""

WIDTH = 24


def lines(text: str) -> list[str]:
    """Its words in lines of at most WIDTH characters, as full as possible; a longer word has a
    line of its own."""
    result, line = list[str](), ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            result.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*result, line] if line else result


def shortened(text: str) -> str:
    """A text of at most WIDTH characters: where it is longer, its beginning with '...' last."""
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
