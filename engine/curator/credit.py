"""What the archive's outcomes say of each mechanism."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from engine.view import HarnessSummary, gain

PRIOR = 0.06
"""The gain expected of a mechanism that was never tried, on the objective's scale."""


@dataclass(frozen=True)
class Credit:
    """``tries`` measured or rejected offspring brought a mechanism in; ``gain`` is the mean gain
    of the measured ones over their bases, shared among what each brought in (None where none was
    measured), and ``expected`` the same shrunk towards the prior, a rejection counting as 0."""

    tries: int
    rejected: int
    gain: float | None
    expected: float


class Credits:
    """Credit by mechanism; one that was never tried has the prior."""

    def __init__(self, entries: Sequence[HarnessSummary]) -> None:
        by_oid = {entry.oid: entry for entry in entries}
        gains: dict[str, list[float]] = defaultdict(list)
        self._rejected: dict[str, int] = defaultdict(int)
        for entry in entries:
            base = by_oid.get(entry.base or "")
            brought = set(entry.mechanisms) - set(base.mechanisms if base else ())
            if base is None or not brought:
                continue
            if entry.rejected:
                for name in brought:
                    self._rejected[name] += 1
            elif (improved := gain(entry, by_oid)) is not None:
                for name in brought:
                    gains[name].append(improved / len(brought) ** 0.5)
        self._gains = dict(gains)

    def of(self, name: str) -> Credit:
        seen, lost = self._gains.get(name, []), self._rejected.get(name, 0)
        expected = (PRIOR + sum(seen)) / (1 + len(seen) + lost)
        mean = sum(seen) / len(seen) if seen else None
        return Credit(len(seen) + lost, lost, mean, expected)

    def tried(self) -> list[tuple[str, Credit]]:
        """All mechanisms with an outcome, the best first."""
        names = sorted(set(self._gains) | set(self._rejected))
        return sorted(((n, self.of(n)) for n in names), key=lambda each: -each[1].expected)
