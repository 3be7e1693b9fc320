"""What is handed to ms-swift, and what is taken back: without ms-swift itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pico
import psutil
import pytest
from test_trainer import SAMPLE, dataset

from engine.adaptation import Lora, TrainParams
from engine.adaptation.encoding import encode, joined, sequences, taught_turns
from engine.adaptation.preparing import prepare
from engine.adaptation.swift import command, grpo, tree, weights
from engine.adaptation.swift.history import Losses, cause, finished, last_state
from engine.adaptation.swift.options import SwiftOptions, find_program
from engine.adaptation.swift.rows import write_rows
from engine.adaptation.trainer import train
from engine.checkpoints import check_complete, digest
from engine.errors import ConfigError, TrainerError
from engine.params import Params, parse
from engine.repository import preset_text
from engine.serving.options import checked
from engine.serving.prompt import token_ids, tokenizer_of

GOLDEN = Path(__file__).with_name("golden") / "swift"
NAMES = {"attribution": "attribution", "rbac_sql": "rbac", "smart_home": "homebench"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pico.write_checkpoint(tmp_path_factory.mktemp("pico") / "seed", tied=False)


def qwen(folder: Path) -> Path:
    """A folder that says it is the paper's architecture."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "qwen3_5", "vision_config": {}}')
    return folder


def started(params: Params, lora: Lora | None = None) -> tuple[TrainParams, SwiftOptions]:
    own = params.adaptation
    settings = TrainParams(own.learning_rate, own.batch_size, own.max_length, lora=lora)
    return settings, checked(SwiftOptions, own.options, "adaptation.options")


@pytest.mark.parametrize("domain", NAMES)
def test_the_paper_s_trainings_are_these_commands(domain: str, tmp_path: Path) -> None:
    params = parse(preset_text("paper", domain), domain)
    settings, options = started(params)
    job = command.Job(qwen(tmp_path / "CHECKPOINT"), Path("ROWS"), Path("OUTPUT"), 0)
    made = command.script(command.sft("swift", job, settings, options), command.launch(options))
    made = made.replace(str(tmp_path) + "/", "")
    assert made == (GOLDEN / f"sft-{NAMES[domain]}.sh").read_text("utf-8")


def test_adapters_and_several_nodes_are_this_command(tmp_path: Path) -> None:
    options = SwiftOptions(devices=8, nodes=2, master_addr="node0", sequence_parallel=2)
    settings = TrainParams(1e-4, 16, 4096, lora=Lora(16, 32, 0.05))
    state = Path("OUTPUT/checkpoint-100")
    job = command.Job(qwen(tmp_path / "CHECKPOINT"), Path("ROWS"), Path("OUTPUT"), 7, state)
    made = command.script(command.sft("swift", job, settings, options), command.launch(options))
    made += command.script(command.merge("swift", state, Path("MERGED"), options), {})
    made = made.replace(str(tmp_path) + "/", "")
    assert made == (GOLDEN / "sft-lora-nodes.sh").read_text("utf-8")


@pytest.mark.parametrize("method", grpo.POLICIES)
def test_table_9_is_these_commands(method: str, tmp_path: Path) -> None:
    checkpoint = qwen(tmp_path / "CHECKPOINT")
    place, settings = grpo.Place(checkpoint, Path("BASELINE"), "qwen3_5", 20, 0), grpo.Settings()
    server, training = grpo.variables(settings)
    made = command.script(grpo.rollout("swift", place, settings), server)
    made += command.script(grpo.train("swift", method, place, settings), training)
    made = made.replace(str(tmp_path) + "/", "")
    assert made == (GOLDEN / f"rl-{method}.sh").read_text("utf-8")
    assert (settings.steps(3400), settings.sampled(3400)) == (10_200, 81_600)


@pytest.mark.parametrize("domain", NAMES)
def test_the_papers_parameters_stand_in_files(domain: str) -> None:
    path = Path(__file__).parents[1] / "params" / f"paper-{NAMES[domain]}.yaml"
    assert path.read_text("utf-8") == preset_text("paper", domain)


def test_table_4() -> None:
    figures = {}
    for domain in NAMES:
        params = parse(preset_text("paper", domain), domain)
        options = checked(SwiftOptions, params.adaptation.options, "o")
        figures[domain] = (
            params.sampling.max_tokens,
            params.serving.context,
            params.limits.turns,
            params.adaptation.max_length,
            options.sequence_parallel,
            params.adaptation.batch_size,
            options.accumulation(params.adaptation.batch_size),
        )
    assert figures == {
        "attribution": (8192, 65536, 20, 65536, 2, 8, 4),
        "rbac_sql": (4096, 32768, 10, 8192, 1, 8, 2),
        "smart_home": (8192, 65536, 20, 65536, 2, 8, 4),
    }


@pytest.mark.parametrize(
    ("options", "batch", "said"),
    [
        ({"devices": 4, "sequence_parallel": 3}, 8, "3 doesn't divide the 4 devices"),
        ({"devices": 8, "sequence_parallel": 2}, 6, "shared out to 4 at a time .* set 8"),
    ],
)
def test_devices_and_batch_must_fit(options: dict[str, int], batch: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SwiftOptions(**options).accumulation(batch)  # type: ignore[arg-type]


def test_a_missing_or_other_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'no-swift' is no program here; make an environment"):
        find_program("no-swift")
    compiler = tmp_path / "swift"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    with pytest.raises(ConfigError, match=r"is not ms-swift; .*adaptation\.options\.command"):
        find_program(str(compiler))


def test_rows_hold_the_tokens_of_the_sequences(checkpoint: Path, tmp_path: Path) -> None:
    words = tokenizer_of(checkpoint)
    made = sequences(taught_turns(words, SAMPLE), 2048)
    assert write_rows(tmp_path / "rows.jsonl", made, words) == 1
    [row] = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    parts = [(message["content"], message["loss"]) for message in row["messages"]]
    assert [loss for _, loss in parts] == [False, True, False, True]
    parts[-1] = (parts[-1][0] + words.eos_token, True)
    ids = [(id, loss) for text, loss in parts for id in token_ids(words, text)]
    [sequence] = encode(words, SAMPLE, 2048)
    assert tuple(id for id, _ in ids) == sequence.ids
    assert tuple(id if loss else -100 for id, loss in ids) == sequence.labels


def test_a_thought_is_taught_with_its_own_turn_alone(checkpoint: Path) -> None:
    words = tokenizer_of(checkpoint)
    words.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
        "{{ m.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    said: list[Any] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "one"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d", "reasoning_content": "two"},
    ]
    sample = {"messages": said, "tools": [], "train_turns": [True, True]}
    texts = [
        (words.decode(turn.prompt), words.decode(turn.reply))
        for turn in taught_turns(words, sample)
    ]
    first = "<|im_start|>user\na<|im_end|><|im_start|>assistant\n"
    assert texts == [
        (first, "<think>one</think>b<|im_end|>"),
        (
            f"{first}b<|im_end|><|im_start|>user\nc<|im_end|><|im_start|>assistant\n",
            "<think>two</think>d<|im_end|>",
        ),
    ]
    assert len(sequences(taught_turns(words, sample), 2048)) == 2, "no later prompt showed it"


def test_too_long_turns_are_told_before_training(checkpoint: Path, tmp_path: Path) -> None:
    words = tokenizer_of(checkpoint)
    short, long = taught_turns(words, SAMPLE)
    data = dataset(tmp_path / "d.jsonl", SAMPLE)
    prepared = prepare(words, data, short.length, {})
    assert prepared.warning == (
        f"1 of 2 taught turns end beyond adaptation.max_length {short.length} tokens (the longest "
        f"at {long.length}) and are left out; adaptation.max_length: "
        f"{-(-long.length // 256) * 256} would keep them"
    )
    assert [joined(turns).ids for turns in prepared.sequences] == [short.prompt + short.reply]
    with pytest.raises(TrainerError, match=f"the longest has {long.length}: adaptation"):
        prepare(words, data, 64, {})
    assert prepare(words, data, long.length, {}).warning == ""


def test_the_plain_trainer_says_so_too_and_merges_adapters(
    checkpoint: Path, tmp_path: Path
) -> None:
    short, _ = taught_turns(tokenizer_of(checkpoint), SAMPLE)
    data = dataset(tmp_path / "d.jsonl", *[SAMPLE] * 4)
    told: list[str] = []
    settings = TrainParams(1e-2, 2, short.length, lora=Lora(4, 8))
    report = train(checkpoint, data, tmp_path / "out", settings, 0, lambda *step: None, told.append)
    assert len(report.losses) == 2 and ["4 of 8" in line for line in told] == [True]
    check_complete(tmp_path / "out")
    assert digest(tmp_path / "out") != digest(checkpoint)
    assert not [path for path in (tmp_path / "out").iterdir() if "adapter" in path.name]
    with pytest.raises(ConfigError, match=r"adaptation\.options: unknown key 'devices'"):
        train(
            checkpoint, data, tmp_path / "out", TrainParams(options={"devices": 2}), 0, lambda *s: 0
        )


def test_losses_are_read_as_they_are_written(tmp_path: Path) -> None:
    log = tmp_path / "logging.jsonl"
    losses = Losses(log)
    assert list(losses.new()) == []
    log.write_text('{"loss": 2.5, "global_step/max_steps": "1/3"}\n{"loss": 2.0, "glob')
    assert list(losses.new()) == [(1, 3, 2.5)]
    with log.open("a") as more:
        more.write('al_step/max_steps": "2/3"}\n{"train_runtime": 3.0}\n')
        more.write('{"loss": 1.9, "global_step/max_steps": "2/3"}\n')
    assert list(losses.new()) == [(2, 3, 2.0), (2, 3, 1.9)]
    assert losses.by_step == {1: 2.5, 2: 1.9}


def test_only_complete_states_are_gone_on_from(tmp_path: Path) -> None:
    assert last_state(tmp_path) is None
    for step, complete in ((2, True), (10, True), (12, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if complete:
            record = json.dumps({"global_step": step, "max_steps": 10})
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(record)
    state = last_state(tmp_path)
    assert state == tmp_path / "checkpoint-10" and finished(state)
    assert not finished(tmp_path / "checkpoint-2")


def test_the_cause_is_the_error_and_not_the_launcher_s_last_line() -> None:
    log = (
        "Traceback (most recent call last):\n"
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: sft.py FAILED\n"
        "============\n"
    )
    assert cause(log) == (
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB; raise "
        "adaptation.options.sequence_parallel or lower adaptation.max_length"
    )
    assert cause("") == "no message"


def trained(source: Path, folder: Path, **changes: Any) -> Path:
    """As a trainer leaves it: fp32, and whatever ``changes`` are."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = {n: t.float() for n, t in load_file(source / "model.safetensors").items()}
    tensors |= {"model.norm.weight": torch.full((32,), 3.0)} | changes
    folder.mkdir()
    save_file({n: t for n, t in tensors.items() if t is not None}, folder / "model.safetensors")
    return folder


def test_what_was_trained_is_a_checkpoint_of_the_source_s_kind(
    checkpoint: Path, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file

    weights.write(trained(checkpoint, tmp_path / "t"), checkpoint, tmp_path / "out")
    check_complete(tmp_path / "out")
    names = {path.name for path in checkpoint.iterdir()} - {"README.md"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {t.dtype for t in tensors.values()} == {torch.bfloat16}
    assert tensors["model.norm.weight"].tolist() == [3.0] * 32


def test_weights_that_the_training_did_not_know_are_carried_over(
    checkpoint: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    lacking = trained(checkpoint, tmp_path / "t", **{"lm_head.weight": None})
    weights.write(lacking, checkpoint, tmp_path / "out")
    check_complete(tmp_path / "out")
    made = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    own = AutoModelForCausalLM.from_pretrained(checkpoint)
    assert bool((made.lm_head.weight == own.lm_head.weight).all())


@pytest.mark.parametrize("case", ["unknown", "nan"])
def test_other_names_and_no_numbers_are_refused(
    case: str, checkpoint: Path, tmp_path: Path
) -> None:
    import torch

    changes = {
        "unknown": {"model.visual.weight": torch.zeros(2)},
        "nan": {"model.norm.weight": torch.full((32,), float("nan"))},
    }
    said = {"unknown": "model_type", "nan": "lower adaptation.learning_rate"}
    with pytest.raises(TrainerError, match=said[case]):
        weights.write(
            trained(checkpoint, tmp_path / "t", **changes[case]), checkpoint, tmp_path / "out"
        )


def test_nothing_of_a_launcher_outlives_the_engine(tmp_path: Path) -> None:
    """Its worker is in a session of its own, as torchrun's are."""
    mark = tmp_path / "pid"
    worker = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    launcher = (
        "import subprocess, sys; "
        f"subprocess.run([sys.executable, '-c', {worker!r}], start_new_session=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", tree.__file__, sys.executable, "-c", launcher],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    while not (mark.exists() and mark.read_text()):
        time.sleep(0.05)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 128 + signal.SIGKILL
    assert not psutil.pid_exists(int(mark.read_text()))
    failing = [sys.executable, "-I", tree.__file__, sys.executable, "-c", "raise SystemExit(3)"]
    with subprocess.Popen(failing, stdin=subprocess.PIPE) as again:
        assert again.wait() == 3
