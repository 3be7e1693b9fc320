"""Handle a compound request one part at a time; the answers are submitted together."""

from __future__ import annotations

import re

MOST = 10
VERBS = (
    "turn|set|switch|adjust|change|increase|decrease|raise|lower|reduce|open|close|start|stop|play|"
    "pause|resume|put|make|activate|deactivate|enable|disable|dim|brighten|pack|empty|take|fully|"
    "shut|charge|begin|please|lock|unlock|run|select|move|send|return|fill|go|kindly|can|could"
)


def split(agent: object, instruction: str) -> list[str]:
    """Cut before a verb that follows a comma or an 'and'."""
    cuts = re.split(
        rf"(?:,\s*(?:and\s+)?(?:then\s+)?|;\s*|\.\s+|\s+and\s+(?:then\s+)?)(?=(?:{VERBS})\b)",
        instruction.strip(),
        flags=re.IGNORECASE,
    )
    parts = [cut.strip().rstrip(".,;") for cut in cuts if cut.strip(" .,;")]
    if not 1 < len(parts) <= MOST:
        return [instruction]
    return [part[0].upper() + part[1:] + "." for part in parts]
