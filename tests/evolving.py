"""A small domain and a model server that plays solver and proposer by rules, for runs in which a
harness evolves itself. Loaded by params (``evolving:DOMAIN``, ``evolving:EvolvingServer``).

Tasks live in a shell of four commands. Those of family ``logs`` print 16 MB: without truncation
the next request is over the context. The proposer's edits are real ones, made with the harness's
own bash tool in a real sandbox.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripted import ScriptedServer

from engine.brief import Brief, Evidence
from engine.domains import Objective, Task, Verdict
from engine.domains.split import TaskSplits, interleave
from engine.domains.terminal.domain import problem
from engine.domains.terminal.problem import Problem
from engine.editors import Edit
from engine.view import ArchiveView
from kernel.contract import Completion, ContextLengthExceeded, ExecResult, RawToolCall, Sampling
from kernel.scripted import SHELL_RULES

FAMILIES = ("sums", "logs", "mail", "papers", "repairs", "dialogue")
"""Five for the first stage and one for the second, as the paper's two stages have them."""
CONTEXT_CHARS = 120_000
LONG_BYTES = 16_000_000
SERVE = "serve them until they say goodbye"
"""What the oracle's harness must say, or it leaves people after the first thing they asked."""

WHOLE = '    return "\\n".join(part for part in parts if part)'
CUT = """\
    text = "\\n".join(part for part in parts if part)
    if len(text) <= 4000:
        return text
    return text[:2000] + "\\n[cut]\\n" + text[-2000:]"""
"""How the seed harness shows an output, and the same with truncation."""

Step = str | tuple[str, Mapping[str, Any]]
"""A shell command, or a call of a tool by name and arguments."""


class EvolvingWorld:
    """``question``, ``log`` (prints 16 MB), ``answer N`` and ``keep TEXT`` (for /logs/agent)."""

    rules = SHELL_RULES

    def __init__(self, private: Mapping[str, Any]) -> None:
        self.public: dict[str, Any] = {}
        self._private, self._given, self._kept = private, "", ""
        self._answer: Mapping[str, Any] | None = None

    @property
    def answer(self) -> Mapping[str, Any] | None:
        return self._answer

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        return (await self.exec(str(arguments["command"]))).stdout

    async def exec(self, command: str) -> ExecResult:
        word, _, rest = command.partition(" ")
        if word == "log":
            line = f"the number is {self._private['gold']}\n"
            return ExecResult(line + "noise\n" * ((LONG_BYTES - len(line)) // 6), "", 0)
        if word == "answer":
            self._given = rest
        elif word == "keep":
            self._kept = rest
        else:
            return ExecResult("", f"{word}: not found", 127)
        return ExecResult("", "", 0)

    async def settle(self) -> None:
        right = self._given == self._private["gold"]
        grader = f"answer {self._given or 'missing'}: {'right' if right else 'wrong'}\n"
        logs = {"notes.txt": self._kept} if self._kept else {}
        self._answer = {"score": float(right), "grader": grader, "logs": logs}

    async def close(self) -> None:
        return None


class EvolvingDomain:
    name = "evolving"
    turn_limit = 12
    entry_points: Mapping[str, tuple[str, ...]] = {"run": ("instruction", "model", "world")}
    seed_harness = Path(__file__).parents[1] / "seed_harnesses" / "general"
    direction = "Solve tasks in a shell."

    def load(self, data: Path, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        raise AssertionError("these tasks are generated")

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        draw = random.Random(f"{salt}{seed}")
        numbers = draw.sample(range(10000, 99999), len(FAMILIES) * sum(sizes.values()))
        made: dict[str, list[Task]] = {}
        for split, size in sizes.items():
            groups = {f: [_task(split, f, numbers.pop()) for _ in range(size)] for f in FAMILIES}
            made[split] = interleave(groups)[:size]
        return TaskSplits(made["train"], made["validation"], made["test"])

    def world(self, task: Task) -> EvolvingWorld:
        return EvolvingWorld(task.private)

    def practice(self, task: Task, instruction: str) -> Task:
        return Task("practice", instruction, {}, {"gold": ""}, instruction, {})

    def verify(self, task: Task, answer: Any | None) -> Verdict:
        score = float(answer["score"]) if answer else 0.0
        return Verdict(score, score == 1, {}, "" if score == 1 else "wrong")

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        scores = [verdict.score for _, verdict in verdicts]
        return {"score": sum(scores) / max(len(scores), 1)}

    def objective(self, metrics: Mapping[str, float]) -> Objective:
        return Objective(metrics["score"], {})


def _task(split: str, family: str, number: int) -> Task:
    asks = "Print the log and answer its number." if family == "logs" else f"Answer {number}."
    said = f"{family.title()}. {asks} (Task {split[0]}{number}.)"
    return Task(
        f"{split}-{family}-{number}", said, {}, {"gold": str(number)}, said, {"family": family}
    )


DOMAIN = EvolvingDomain()


class EvolvingServer(ScriptedServer):
    """``options.proposer`` names the rules file: a list of {"match": [texts], "commands": [...]};
    the first rule whose texts all stand in what the session has seen is followed. ``lot 0`` or
    ``lot 1``, by the seed of its first turn, is among that: so rules can tell lineages apart."""

    fingerprint = "evolving"

    def __init__(self, params: Any, root: Path) -> None:
        super().__init__(params, root)
        path = params.options.get("proposer")
        self._rules = json.loads(Path(path).read_text()) if path else []

    def model(self, folder: Path, digest: str) -> EvolvingChat:  # type: ignore[override]
        return EvolvingChat(self._rules, self._latency, self._log)


class EvolvingChat:
    """Asks nothing of the harness but that it runs what is called and shows what came."""

    def __init__(
        self, rules: Sequence[Mapping[str, Any]], latency_s: float, log: str | None
    ) -> None:
        self._rules, self._latency, self._log = rules, latency_s, log

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        import asyncio

        await asyncio.sleep(self._latency)
        if sum(len(str(message["content"])) for message in messages) > CONTEXT_CHARS:
            raise ContextLengthExceeded("prompt is longer than the context")
        instruction = next(str(m["content"]) for m in messages if m["role"] == "user")
        seen = [str(m["content"]) for m in messages if m["role"] == "tool"]
        proposes = "harness_workspace" in instruction
        lot = seed % 2
        steps = (
            self._propose(instruction, seen, lot)
            if proposes
            else self._solve(instruction, str(messages[0]["content"]), seen)
        )
        if self._log:
            kind = "propose" if proposes else "solve"
            with Path(self._log).open("a") as stream:
                stream.write(f"{kind} {len(seen)} {seed} {instruction[-40:]!r}\n")
        if len(seen) >= len(steps):
            return Completion("Done.", prompt_tokens=9, completion_tokens=2)
        step = steps[len(seen)]
        name, arguments = step if isinstance(step, tuple) else ("bash", {"command": step})
        call = RawToolCall(f"c{len(seen)}", name, json.dumps(arguments))
        return Completion("", (call,), prompt_tokens=9, completion_tokens=3)

    def _propose(self, instruction: str, seen: Sequence[str], lot: int) -> Sequence[str]:
        """First it looks at the notes and the trials; what it then does, a rule says."""
        look = (
            "cat /app/harness_workspace/evolve_notes.md 2>/dev/null; ls /app/eval_trials; "
            f"grep -l 'anchor\": true' /app/eval_trials/*/result.json; echo lot {lot}"
        )
        if not seen:
            return [look]
        known = instruction + seen[0]
        for rule in self._rules:
            if all(text in known for text in rule["match"]) and not any(
                text in known for text in rule.get("without", ())
            ):
                return [look, *rule["commands"]]
        return [look]

    def _solve(self, instruction: str, system: str, seen: Sequence[str]) -> Sequence[Step]:
        if instruction.startswith("Logs."):
            found = re.search(r"the number is (\d+)", seen[0]) if seen else None
            return ["log", f"answer {found[1] if found else 'unknown'}", "keep read the log"]
        found = re.search(r"Answer (\d+)\.", instruction)
        return [f"answer {found[1] if found else 'unknown'}"]


class OracleServer(EvolvingServer):
    """On terminal tasks: a task's own solution, but it looks at a long journal first, and stops
    early in a conversation unless the system prompt tells it not to."""

    fingerprint = "oracle"

    def __init__(self, params: Any, root: Path) -> None:
        super().__init__(params, root)
        self._splits = root / "splits"

    def model(self, folder: Path, digest: str) -> OracleChat:  # type: ignore[override]
        known: dict[str, Problem] = {}
        for path in self._splits.glob("*/*.jsonl"):
            for line in path.read_text().splitlines()[1:]:
                task = Task(**json.loads(line))
                known[task.instruction] = problem(task)
        return OracleChat(self._rules, self._latency, self._log, known)


class OracleChat(EvolvingChat):
    def __init__(
        self,
        rules: Sequence[Mapping[str, Any]],
        latency_s: float,
        log: str | None,
        known: Mapping[str, Problem],
    ) -> None:
        super().__init__(rules, latency_s, log)
        self._known = known

    def _solve(self, instruction: str, system: str, seen: Sequence[str]) -> Sequence[Step]:
        own = self._known.get(instruction)
        if own is None:
            return ["true"]
        steps: list[Step] = [own.solution, *own.solution_calls]
        if "say_to_user" in instruction and SERVE not in system:
            return steps[:2]
        return ["./journal", *steps] if "/app/journal" in instruction else steps


class Truncating:
    """An editor (``evolving:TRUNCATING``) that adds output truncation to the incumbent."""

    def edit(
        self,
        brief: Brief,
        evidence: Evidence,
        view: ArchiveView,
        rng: random.Random,
        line_budget: int | None,
    ) -> Edit:
        base = view.index()[0].oid
        files = dict(view.files(base))
        assert WHOLE.encode() in files["harness.py"]
        files["harness.py"] = files["harness.py"].replace(WHOLE.encode(), CUT.encode())
        return Edit(files, base, "Cut long outputs", "truncating")

    def repair(self, edit: Edit, *rest: object) -> Edit:
        return edit


TRUNCATING = Truncating()
