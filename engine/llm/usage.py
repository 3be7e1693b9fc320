"""What calls used, what that costs, and how much may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Price:
    """USD per million tokens; ``cached_input`` None: the same as ``input``."""

    input: float
    output: float
    cached_input: float | None = None

    def usd(self, prompt: int, cached: int, completion: int) -> float:
        """The price of one call; ``cached`` tokens are part of ``prompt``."""
        again = self.input if self.cached_input is None else self.cached_input
        whole = (prompt - cached) * self.input + cached * again + completion * self.output
        return whole / 1e6


@dataclass(frozen=True)
class Usage:
    """Sums over calls; ``cached_tokens`` are part of ``prompt_tokens``, seconds are wall time.

    Of the calls, ``unanswered`` are in flight, were refused or broke off; ``estimated`` have token
    counts guessed from bytes, as the endpoint gave none; ``unpriced`` ran on a model without a
    price, so that ``usd`` is too low.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    unanswered: int = 0
    estimated: int = 0
    unpriced: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def tokens(self) -> int:
        """Prompt and completion."""
        return self.prompt_tokens + self.completion_tokens

    def figures(self) -> Mapping[str, float]:
        """By name, rounded, for people and scripts."""
        whole = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**whole, "seconds": round(self.seconds, 2), "usd": round(self.usd, 6)}


@dataclass(frozen=True)
class Caps:
    """The most that may be used; None: no cap. Money in USD, seconds summed over the calls."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def reached(self, usage: Usage) -> tuple[str, str] | None:
        """The first cap that leaves no further call: its name, and the figures in words."""
        for field in fields(self):
            cap, used = getattr(self, field.name), getattr(usage, field.name)
            if cap is not None and used >= cap:
                return field.name, f"{used:,.6g} of {cap:,.6g} {field.name}"
        return None
