"""Questions to ms-swift, asked in its own environment: ``python swift_inside.py QUESTIONS``.

QUESTIONS is a JSON file; the answers are printed as JSON on the last line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


def parsed(argv: list[str], whole: bool) -> list[str]:
    """What ms-swift's parser doesn't know of a command line; with ``whole`` its own checks of the
    values, too. Raises (or exits) where it refuses."""
    from swift import arguments
    from swift.utils import parse_args
    from transformers import HfArgumentParser

    kind = {
        "sft": arguments.SftArguments,
        "rlhf": arguments.RLHFArguments,
        "rollout": arguments.RolloutArguments,
        "export": arguments.ExportArguments,
    }[argv[1]]
    if whole:
        return list(parse_args(kind, argv[2:])[1])
    return list(HfArgumentParser([kind]).parse_known_args(argv[2:])[1])


def encoded(argv: list[str]) -> list[dict[str, list[int]]]:
    """The rows of an ``sft`` command's data set as ms-swift feeds them to the model."""
    from swift.arguments import SftArguments
    from swift.pipelines.train.sft import SwiftSft

    assert SftArguments is not None
    pipeline = SwiftSft(argv[2:])
    data, _ = pipeline._prepare_dataset()
    return [{k: [int(i) for i in data[n][k]] for k in ("input_ids", "labels")}
            for n in range(len(data))]  # fmt: skip


def played(folder: str, checkpoint: str, replies: list[str]) -> list[dict[str, Any]]:
    """An episode of the plugin's scheduler under an engine that says ``replies``."""
    import runpy

    from swift.rollout.multi_turn import multi_turns
    from transformers import AutoTokenizer

    runpy.run_path(str(Path(folder) / "plugin.py"))
    words = AutoTokenizer.from_pretrained(checkpoint)
    said = iter(replies)
    asked: list[str] = []

    class Engine:
        tokenizer = words

        async def infer_async(self, request: Any, config: Any, **_: Any) -> Any:
            from swift.infer_engine.protocol import (
                ChatCompletionResponse,
                ChatCompletionResponseChoice,
                ChatMessage,
                UsageInfo,
            )  # fmt: skip

            asked.append(request.messages[0]["content"])
            text = next(said)
            ids = words(text + words.eos_token, add_special_tokens=False)["input_ids"]
            choice = ChatCompletionResponseChoice(
                0, ChatMessage("assistant", text), "stop", token_ids=ids
            )
            return ChatCompletionResponse("m", [choice], UsageInfo(1, 1, 2))

    scheduler = multi_turns["coevo"](infer_engine=Engine())

    async def play() -> Any:
        request = SimpleNamespace(data_dict={"task": 0}, uuid="one")
        try:
            return await scheduler.run(request, None)
        finally:
            await scheduler._episodes.close()

    return [
        {
            "prompt": output.messages[0]["content"],
            "ids": output.response_token_ids[0],
            "mask": output.response_loss_mask[0],
            "reward": output.rollout_infos["total_reward"],
            "asked": asked,
        }
        for output in asyncio.run(play())
    ]


def main() -> None:
    questions = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    answers = [globals()[name](*arguments) for name, *arguments in questions]
    print("\n" + json.dumps(answers))


if __name__ == "__main__":
    main()
