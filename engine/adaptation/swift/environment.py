"""The kernel as an RL environment: ms-swift's policy plays whole episodes of a fixed harness.

``register`` is called by the plugin file that a baseline's folder holds, inside ms-swift's rollout
server. An episode runs as any rollout does: the harness in its sandbox, the world and the verifier
on the host, the model behind ``model.chat``; here that model is ms-swift's engine. Its reward is
the verifier's score. Prompts are rendered by the checkpoint's own template, as everywhere.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.domains import Domain, Task
from engine.domains.registry import domain as find_domain
from engine.evaluation.keys import rollout_seed
from engine.params import Params, parse
from engine.serving import calls
from engine.serving.prompt import render, token_ids
from kernel.contract import Completion, Message, Sampling, ToolSchema
from kernel.host import WorkerPool

_THOUGHT = "</think>"


@dataclass(frozen=True)
class Sampled:
    """One turn: the prompt's tokens, the sampled ones, and ms-swift's response."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    asked: str
    said: str
    response: Any


@dataclass
class Player:
    """The policy behind ``model.chat`` of one episode. ``ask`` takes a prompt's text and the most
    tokens to sample, and gives ms-swift's response."""

    ask: Any
    tokenizer: Any
    switches: dict[str, Any] = field(default_factory=dict)
    turns: list[Sampled] = field(default_factory=list)

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        """One turn, kept for training."""
        prompt = render(self.tokenizer, messages, tools, reply_next=True, switches=self.switches)
        response = await self.ask(prompt, sampling)
        choice = response.choices[0]
        text = str(choice.message.content or "")
        ids = tuple(choice.token_ids or token_ids(self.tokenizer, text))
        asked = tuple(token_ids(self.tokenizer, prompt))
        self.turns.append(Sampled(asked, ids, prompt, text, response))
        thought, mark, said = text.rpartition(_THOUGHT)
        parsed = calls.parse(said, tools)
        return Completion(
            content=parsed.content,
            tool_calls=parsed.calls,
            malformed=parsed.malformed,
            finish_reason=str(choice.finish_reason or "stop"),
            prompt_tokens=len(asked),
            completion_tokens=len(ids),
            reasoning=thought.removeprefix("<think>").strip() if mark else "",
        )


@dataclass(frozen=True)
class Conversation:
    """What one growing history teaches: its first prompt, then tokens with a mask that is 1 where
    the policy wrote them."""

    prompt: str
    text: str
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    response: Any


def conversations(turns: Sequence[Sampled]) -> list[Conversation]:
    """Turns share a conversation while each prompt continues the one before token by token."""
    chains: list[list[Sampled]] = []
    for turn in turns:
        last = chains[-1][-1] if chains else None
        whole = last.prompt + last.reply if last else ()
        if last is None or turn.prompt[: len(whole)] != whole:
            chains.append([])
        chains[-1].append(turn)
    return [_joined(chain) for chain in chains]


def _joined(chain: Sequence[Sampled]) -> Conversation:
    first, last = chain[0], chain[-1]
    ids: tuple[int, ...] = ()
    mask: tuple[int, ...] = ()
    for turn in chain:
        between = turn.prompt[len(first.prompt) + len(ids) :]
        ids += between + turn.reply
        mask += (0,) * len(between) + (1,) * len(turn.reply)
    text = (last.asked + last.said)[len(first.asked) :]
    return Conversation(first.asked, text, ids, mask, last.response)


class Episodes:
    """Plays tasks of a baseline's folder: ``params.yaml``, ``harness/``, ``private.jsonl``."""

    def __init__(self, folder: Path, tokenizer: Any) -> None:
        text = (folder / "params.yaml").read_text("utf-8")
        self._params: Params = parse(text, str(folder / "params.yaml"))
        self._domain: Domain = find_domain(self._params.domain)
        lines = (folder / "private.jsonl").read_bytes().splitlines()
        self._tasks = [Task(**json.loads(line)) for line in lines]
        root = folder / "harness"
        self._files = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
        thinking = self._params.serving.thinking
        self._switches = {} if thinking is None else {"enable_thinking": thinking}
        self._tokenizer, self._counts = tokenizer, folder / "rollouts.jsonl"
        self._pool = WorkerPool(sandbox=self._params.sandbox)
        self._ready: asyncio.Task[Any] | None = None

    async def play(self, number: int, execution: int, ask: Any) -> tuple[float, list[Conversation]]:
        """One episode on task ``number``: its score, and what it teaches. Counted in
        ``rollouts.jsonl``."""
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._pool.__aenter__())
        await asyncio.shield(self._ready)
        task = self._tasks[number]
        player = Player(ask, self._tokenizer, self._switches)
        own = getattr(self._domain, "limits", {})
        limits = self._params.limits.limits(self._domain.turn_limit)
        trajectory = await self._pool.run(
            self._files,
            task.instruction,
            player,
            self._domain.world(task),
            type(limits)(**{**vars(limits), **own}),
            self._params.sampling.sampling(),
            rollout_seed(self._params.seed, task, execution),
        )
        verdict = await asyncio.to_thread(self._domain.verify, task, trajectory.answer)
        line = {"task": number, "score": verdict.score, "turns": trajectory.turns}
        with self._counts.open("a", encoding="utf-8") as counts:
            counts.write(json.dumps(line) + "\n")
        return verdict.score, conversations(player.turns)

    async def close(self) -> None:
        """End the sandboxed workers."""
        if self._ready is not None:
            await self._pool.__aexit__(None, None, None)


def register(folder: Path) -> None:
    """Make the kernel known to ms-swift as the scheduler ``coevo`` of ``folder``'s tasks."""
    from swift.infer_engine.protocol import RolloutInferRequest, RolloutOutput
    from swift.rollout.multi_turn import RolloutScheduler, multi_turns

    class KernelScheduler(RolloutScheduler):  # type: ignore[misc]
        """An episode for each request; several outputs where its histories don't continue."""

        _episodes: Episodes | None = None

        async def run(self, infer_request: Any, request_config: Any, **kwargs: Any) -> Any:
            if self._episodes is None:
                self._episodes = Episodes(folder, self.tokenizer)

            async def ask(prompt: str, sampling: Sampling) -> Any:
                asked = RolloutInferRequest(messages=[{"role": "user", "content": prompt}])
                return await self.infer_engine.infer_async(asked, request_config, **kwargs)

            number = int(infer_request.data_dict["task"])
            execution = zlib.crc32(str(infer_request.uuid).encode())
            score, taught = await self._episodes.play(number, execution, ask)
            return [
                RolloutOutput(
                    response=part.response,
                    messages=[
                        {"role": "user", "content": part.prompt},
                        {"role": "assistant", "content": part.text},
                    ],
                    response_token_ids=[list(part.ids)],
                    response_loss_mask=[list(part.mask)],
                    rollout_infos={"total_reward": score, "num_turns": len(taught)},
                )
                for part in taught
            ]

    multi_turns["coevo"] = KernelScheduler
