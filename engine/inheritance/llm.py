"""Model inheritance by a language model; the embedded policy goes on where it answers nonsense."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.inheritance import (
    Decided,
    Decision,
    HarnessFact,
    History,
    Proposal,
    Terms,
    Trial,
    wording,
)
from engine.inheritance.embedded import EmbeddedPolicy
from engine.inheritance.proposing import PROPOSE, checkpoint, proposal, same
from engine.llm.dialogue import BYTES_A_TOKEN, TRIES, Asked, Dialogue, GivenUp, SentBack, tool
from kernel.contract import ToolCall

ROLE = "inheritance"
_READS = 12  # for one offspring
_READ_BYTES = 6000
_SHOWN = 400

READ = tool("read", "A checkpoint, by label or hash.", {"checkpoint": {"type": "string"}})
STOP = tool("stop", "Propose nothing more.", {"why": {"type": "string"}}, optional=["why"])

Attempt = Callable[[Proposal], Awaitable[Trial]]


class LLMPolicy:
    """See engine.inheritance.AskingPolicy."""

    async def ask(
        self,
        llm: Asked,
        history: History,
        heir: HarnessFact,
        terms: Terms,
        attempt: Attempt,
        slot: str,
    ) -> Decided:
        opened = wording.opening(history, heir, terms)
        session = _Session(
            Dialogue(llm, ROLE, opened, session=slot), history, heir, terms, attempt, slot
        )
        try:
            await session.decide()
        except GivenUp as error:
            await session.embedded()
            notice = (
                f"{slot}: the language model was given up after {TRIES} wrong replies in a row "
                f"({error}); the embedded policy went on"
            )
            return Decided(tuple(session.decisions), notice)
        return Decided(tuple(session.decisions))


@dataclass
class _Session:
    """The decisions for one offspring."""

    dialogue: Dialogue
    history: History
    heir: HarnessFact
    terms: Terms
    attempt: Attempt
    slot: str
    decisions: list[Decision] = field(default_factory=list)
    proposed: list[Proposal] = field(default_factory=list)
    taken: int = 0
    reads: int = _READS
    stopped: bool = False

    async def decide(self) -> None:
        """Until the model stops or the proposals are used up."""
        while self.left and not self.stopped:
            for call in await self.dialogue.calls((READ, PROPOSE, STOP)):
                try:
                    said = await self._act(call)
                except SentBack as error:
                    self.dialogue.refuse(call, str(error))
                else:
                    self.dialogue.answer(call, said)

    async def embedded(self) -> None:
        """The embedded policy's proposals, as many as are left."""
        merges = self.terms.merges - sum(each.single is None for each in self.proposed)
        for each in EmbeddedPolicy().propose(
            self.history,
            self.heir.base or "",
            max(merges, 0),
            self.terms.density,
            self.terms.normalize,
        ):
            if self.left and not any(same(each, other) for other in self.proposed):
                await self._try(each)

    @property
    def left(self) -> int:
        return self.terms.proposals - self.taken

    async def _act(self, call: ToolCall) -> str:
        if call.name == "read":
            return self._read(call.arguments)
        if call.name == "stop":
            return self._stop(call.arguments)
        if not self.left or self.stopped:
            return "no proposal is left"
        made = proposal(call.arguments, self.history, self.terms, self.proposed)
        said = await self._try(made)
        return f"{said}\n({self.left} proposals left)"

    def _read(self, arguments: Mapping[str, Any]) -> str:
        found = checkpoint(arguments["checkpoint"], self.history)
        if found is None:
            raise SentBack(f"{arguments['checkpoint'][:80]!r} is no archived checkpoint")
        left = self.terms.context * BYTES_A_TOKEN * 3 // 4 - self.dialogue.size
        if not self.reads or left < _SHOWN:
            raise SentBack("nothing more can be read; propose, or stop")
        self.reads -= 1
        text = wording.details(found, self.history, min(_READ_BYTES, left))
        self._note("read", found.label or found.oid[:12], text)
        return text

    def _stop(self, arguments: Mapping[str, Any]) -> str:
        if not self.taken:
            raise SentBack("propose at least one checkpoint before you stop")
        self.stopped = True
        self._note("stop", "", str(arguments.get("why", "")))
        return "no more proposals"

    async def _try(self, made: Proposal) -> str:
        trial = await self.attempt(made)
        self.proposed.append(made)
        self.taken += not trial.refused
        said = wording.outcome(trial)
        self._note("propose", _named(made), said)
        return said

    def _note(self, action: str, target: str, result: str) -> None:
        self.decisions.append(Decision(self.slot, action, target, result[:_SHOWN]))


def _named(made: Proposal) -> str:
    weights = ", ".join(f"{weight:g} of {oid[:12]}" for oid, weight in made.alpha.items())
    if made.single:
        return f"{weights}: {made.why}"
    settings = f"density {made.density:g}, lambda {made.scale:g}, normalize {made.normalize}"
    return f"{weights} ({settings}): {made.why}"
