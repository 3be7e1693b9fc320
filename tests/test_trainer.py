"""Training on accepted trajectories: what is taught, and that it is learnt."""

import json
from pathlib import Path
from typing import Any

import pico
import psutil
import pytest

from engine.adaptation import Lora, TrainParams
from engine.adaptation.encoding import IGNORED, encode, taught_turns
from engine.adaptation.trainer import train
from engine.checkpoints import check_complete, digest
from engine.errors import TrainerError
from engine.serving import calls
from engine.serving.prompt import render, token_ids, tokenizer_of

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def call(arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": "f", "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }


SAMPLE: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "You run a home."},
        {"role": "user", "content": "turn on the light"},
        {"role": "assistant", "content": "<tool_call>broken"},
        {"role": "user", "content": "not a call"},
        call({"room": "kitchen"}),
        {"role": "tool", "tool_call_id": "1", "content": "light: off"},
        call({"commands": "{kitchen.light.turn_on()}"}),
    ],
    "tools": TOOLS,
    "train_turns": [False, True, True],
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pico.write_checkpoint(tmp_path_factory.mktemp("pico") / "seed", tied=False)


def dataset(path: Path, *samples: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def training(folder: Path) -> list[psutil.Process]:
    """The live processes of a training into ``folder``."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder) in " ".join(process.info["cmdline"] or ())
    ]


def test_each_taught_turn_stands_behind_exactly_its_request_s_prompt(checkpoint: Path) -> None:
    """Token by token what the server is given, and nothing else is taught."""
    words = tokenizer_of(checkpoint)
    [sequence] = encode(words, SAMPLE, 2048)
    taught = [i for i, label in enumerate(sequence.labels) if label != IGNORED]
    spans: list[list[int]] = []
    for i in taught:
        if spans and spans[-1][-1] == i - 1:
            spans[-1].append(i)
        else:
            spans.append([i])
    assert len(spans) == 2
    for span, place in zip(spans, (4, 6), strict=True):
        prompt = render(words, SAMPLE["messages"][:place], TOOLS, reply_next=True)
        assert list(sequence.ids[: span[0]]) == token_ids(words, prompt)
        said = words.decode([sequence.ids[i] for i in span])
        arguments = SAMPLE["messages"][place]["tool_calls"][0]["function"]["arguments"]
        assert said == calls.render("f", json.loads(arguments)) + "<|im_end|>"
        assert all(sequence.labels[i] == sequence.ids[i] for i in span)


def test_the_prompt_is_what_the_server_tokenises(checkpoint: Path) -> None:
    """The same call as in `transformers serve`: chat template and tokens in one."""
    words = tokenizer_of(checkpoint)
    first = taught_turns(words, SAMPLE)[0]
    history = [dict(message) for message in SAMPLE["messages"][:4]]
    served = words.apply_chat_template(
        history, tools=TOOLS, add_generation_prompt=True, tokenize=True, return_dict=True
    )
    assert list(first.prompt) == list(served["input_ids"])


def test_a_template_that_rewrites_its_history_gives_a_sequence_for_each_turn(
    checkpoint: Path,
) -> None:
    words = tokenizer_of(checkpoint)
    count = "{{ messages | rejectattr('role', 'eq', 'assistant') | list | length }}"
    words.chat_template = count + words.chat_template
    first, second = encode(words, SAMPLE, 2048)
    assert first.labels.count(IGNORED) < second.labels.count(IGNORED)


def test_turns_over_the_length_are_left_out(checkpoint: Path) -> None:
    words = tokenizer_of(checkpoint)
    first, second = taught_turns(words, SAMPLE)
    assert encode(words, SAMPLE, len(first.prompt) + len(first.reply) - 1) == []
    [kept] = encode(words, SAMPLE, len(second.prompt) + len(second.reply) - 1)
    assert kept.ids == first.prompt + first.reply


def test_one_epoch_lowers_the_loss_and_leaves_a_complete_checkpoint(
    checkpoint: Path, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "d.jsonl", *[SAMPLE] * 12, {**SAMPLE, "train_turns": [False] * 3})
    settings = TrainParams(learning_rate=1e-2, batch_size=2, max_length=512)
    seen: list[tuple[int, int, float]] = []
    out = tmp_path / "out"
    report = train(checkpoint, data, out, settings, 3, lambda *step: seen.append(step))
    assert report.losses[-1] < report.losses[0] - 0.5
    assert [step[:2] for step in seen] == [(i, 6) for i in range(1, 7)]
    assert (report.samples, report.skipped) == (12, 1)
    check_complete(out)
    names = {path.name for path in checkpoint.iterdir()} - {"README.md"}
    assert {path.name for path in out.iterdir()} == names
    again = tmp_path / "again"
    train(checkpoint, data, again, settings, 3, lambda *step: None)
    assert digest(again) == digest(out), "one seed, one result"
    assert digest(out) != digest(checkpoint)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({**SAMPLE, "train_turns": [True]}, r"d\.jsonl:1: 1 train_turns for 3 assistant"),
        ({**SAMPLE, "train_turns": [False] * 3}, "no turn of at most 512 tokens"),
    ],
)
def test_failed_training_leaves_nothing_and_says_why(
    checkpoint: Path, tmp_path: Path, sample: dict[str, Any], said: str
) -> None:
    data = dataset(tmp_path / "d.jsonl", sample)
    out = tmp_path / "out"
    with pytest.raises(TrainerError, match=said):
        train(checkpoint, data, out, TrainParams(max_length=512), 0, lambda *step: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.jsonl", "out.log"]


def test_an_interrupt_ends_the_training_too(checkpoint: Path, tmp_path: Path) -> None:
    def interrupt(*step: Any) -> None:
        raise KeyboardInterrupt

    data = dataset(tmp_path / "d.jsonl", *[SAMPLE] * 400)
    with pytest.raises(KeyboardInterrupt):
        settings = TrainParams(batch_size=1, max_length=512)
        train(checkpoint, data, tmp_path / "out", settings, 0, interrupt)
    running = [
        " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])
    ]
    assert not [line for line in running if str(tmp_path) in line]
    assert not (tmp_path / "out").exists()


def test_a_killed_training_says_how_it_ended(checkpoint: Path, tmp_path: Path) -> None:
    def kill(*step: Any) -> None:
        for process in training(tmp_path):
            if not any(part.endswith("guard.py") for part in process.cmdline()):
                process.kill()

    data = dataset(tmp_path / "d.jsonl", *[SAMPLE] * 400)
    with pytest.raises(TrainerError, match=r"exit status 137 \(killed from outside"):
        settings = TrainParams(batch_size=1, max_length=512)
        train(checkpoint, data, tmp_path / "out", settings, 0, kill)
    assert not (tmp_path / "out").exists()


def test_a_training_is_called_what_it_was() -> None:
    """A checkpoint's card says it."""
    assert TrainParams().kind == "full-parameter SFT"
    assert TrainParams(lora=Lora(rank=4)).kind == "SFT by LoRA of rank 4, merged"
