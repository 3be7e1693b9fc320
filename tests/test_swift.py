"""ms-swift itself: `make test-swift` makes its environment; without that these tests skip."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pico
import psutil
import pytest
from test_swift_parts import GOLDEN
from test_trainer import SAMPLE, dataset

from engine.adaptation import Lora, TrainParams
from engine.adaptation.encoding import encode
from engine.adaptation.preparing import prepare
from engine.adaptation.swift import baseline, command, grpo
from engine.adaptation.swift.options import SwiftOptions
from engine.adaptation.swift.rows import write_rows
from engine.adaptation.swift.trainer import train
from engine.adaptation.trainer import train as train_plainly
from engine.checkpoints import check_complete, digest
from engine.domains.registry import domain as find_domain
from engine.errors import TrainerError
from engine.params import child_environment
from engine.repository import preset_text
from engine.serving import calls
from engine.serving.prompt import tokenizer_of

HOME = Path(__file__).parents[1] / ".venv-swift"
pytestmark = [
    pytest.mark.swift,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not (HOME / "installed").exists(), reason="no .venv-swift: make test-swift"),
]
PLAIN = {"command": str(HOME / "bin" / "swift"), "cpu": True, "deepspeed": ""}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pico.write_checkpoint(tmp_path_factory.mktemp("pico") / "seed", tied=False)


def ask(folder: Path, *questions: Sequence[object]) -> list[Any]:
    """Answers of ``swift_inside.py``, one process for all."""
    path = folder / "questions.json"
    path.write_text(json.dumps(questions))
    done = subprocess.run(
        [HOME / "bin" / "python", Path(__file__).with_name("swift_inside.py"), path],
        capture_output=True,
        text=True,
        env=child_environment(HF_HUB_OFFLINE="1"),
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answers


def commands(path: Path) -> list[list[str]]:
    """The command lines of a golden script."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    lines = [line.removeprefix("exec ") for line in text.splitlines() if line.startswith("exec")]
    return [shlex.split(line) for line in lines]


def placed(argv: list[str], folder: Path, checkpoint: Path) -> list[str]:
    """The same command on a checkpoint that is here, a Llama, and without a GPU."""
    here = {"CHECKPOINT": str(checkpoint), "qwen3_5": "llama", "ROWS": str(folder / "rows.jsonl")}
    here |= {"BASELINE/tasks.jsonl": str(folder / "rows.jsonl"), "OUTPUT": str(folder / "out")}
    made = [here.get(part, part) for part in argv]
    return [*made, "--template", "chatml", "--use_cpu", "true"]


def test_every_command_is_accepted_and_rows_are_the_rollouts_tokens(
    checkpoint: Path, tmp_path: Path
) -> None:
    words = tokenizer_of(checkpoint)
    prepared = prepare(words, dataset(tmp_path / "d.jsonl", SAMPLE), 2048, {})
    write_rows(tmp_path / "rows.jsonl", prepared.sequences, words)
    golden = [argv for path in sorted(GOLDEN.glob("*.sh")) for argv in commands(path)]
    assert {argv[1] for argv in golden} == {"sft", "export", "rollout", "rlhf"}
    known = [("parsed", argv, False) for argv in golden]
    whole = [
        ("parsed", placed(argv, tmp_path, checkpoint), True)
        for argv in golden
        if argv[1] == "sft" and "--resume_from_checkpoint" not in argv
    ]
    job = command.Job(checkpoint, tmp_path / "rows.jsonl", tmp_path / "out", 0)
    options = SwiftOptions(deepspeed="", cpu=True)
    own = command.sft("swift", job, TrainParams(max_length=2048), options)
    *accepted, rows = ask(tmp_path, *known, *whole, ("encoded", own))
    assert accepted == [[]] * (len(known) + len(whole)), "nothing that ms-swift doesn't know"
    [ours] = encode(words, SAMPLE, 2048)
    assert rows == [{"input_ids": list(ours.ids), "labels": list(ours.labels)}]


def test_it_learns_as_the_plain_trainer_does(checkpoint: Path, tmp_path: Path) -> None:
    """The same batches: each step takes all samples."""
    data = dataset(tmp_path / "d.jsonl", *[SAMPLE] * 4)
    settings = TrainParams(1e-2, 4, 512, epochs=3, warmup=0.0, options=PLAIN)
    seen: list[tuple[int, int, float]] = []
    report = train(checkpoint, data, tmp_path / "out", settings, 3, lambda *step: seen.append(step))
    plain = train_plainly(
        checkpoint, data, tmp_path / "plain", replace(settings, options={}), 3, lambda *step: None
    )
    assert [step[:2] for step in seen] == [(1, 3), (2, 3), (3, 3)]
    assert report.losses == pytest.approx(plain.losses, abs=0.03)
    assert report.losses[-1] < report.losses[0] - 0.5
    assert report.samples == 4
    check_complete(tmp_path / "out")
    assert digest(tmp_path / "out") != digest(checkpoint)
    assert {path.name for path in tmp_path.iterdir()} == {
        "d.jsonl", "out", "out.log", "plain", "plain.log",
    }  # fmt: skip


def test_a_killed_training_goes_on_where_it_was(checkpoint: Path, tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", *[SAMPLE] * 40)
    settings = TrainParams(1e-3, 1, 512, options={**PLAIN, "save_steps": 5})
    out, told, threads = tmp_path / "out", list[str](), set(threading.enumerate())

    def kill(done: int, *_: object) -> None:
        if done == 6:  # of forty, for the log is looked at twice a second
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or ())
                if str(tmp_path) in line and "swift/cli/sft.py" in line:
                    process.kill()

    with pytest.raises(TrainerError, match="exit status"):
        train(checkpoint, data, out, settings, 3, kill)
    assert not out.exists()
    steps: list[int] = []
    report = train(
        checkpoint, data, out, settings, 3, lambda done, *_: steps.append(done), told.append
    )
    assert told and told[0].startswith("the training goes on from step ")
    assert steps[-1] == 40 and len(report.losses) == 40
    check_complete(out)
    assert set(threading.enumerate()) <= threads, "the log's reader has ended"


@pytest.mark.parametrize(
    ("lora", "options"), [(Lora(4, 8), PLAIN), (None, {**PLAIN, "deepspeed": "zero3"})]
)
def test_adapters_are_merged_and_zero3_runs(
    lora: Lora | None, options: dict[str, Any], checkpoint: Path, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "d.jsonl", *[SAMPLE] * 2)
    # ms-swift rounds 3 % of one step up: all of it would be warm-up, at learning rate 0.
    settings = TrainParams(1e-2, 2, 512, warmup=0.0, lora=lora, options=options)
    report = train(checkpoint, data, tmp_path / "out", settings, 3, lambda *step: None)
    assert len(report.losses) == 1
    check_complete(tmp_path / "out")
    assert digest(tmp_path / "out") != digest(checkpoint)


def test_the_kernel_is_the_environment_of_rl(checkpoint: Path, tmp_path: Path) -> None:
    domain = find_domain("smart_home")
    made = domain.generate("salt", 0, {"train": 2, "validation": 2, "test": 2})
    harness = {
        path.relative_to(domain.seed_harness).as_posix(): path.read_bytes()
        for path in domain.seed_harness.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    folder = tmp_path / "grpo"
    place = grpo.Place(checkpoint, folder, "llama", 20, 0)
    text = preset_text("small", "smart_home")
    baseline.write(place, "grpo", "swift", made.train, harness, text, grpo.Settings())
    right = "{" + str(made.train[0].private["gold"]).strip("' ,") + "}"
    reply = calls.render("final_answer", {"commands": right})
    [[output]] = ask(tmp_path, ("played", str(folder), str(checkpoint), [reply] * 3))
    assert output["reward"] == 1.0
    assert sum(output["mask"]) == len(output["ids"]) and output["prompt"] == output["asked"][0]
    assert output["prompt"].endswith("<|im_start|>assistant\n")
    [counted] = (folder / "rollouts.jsonl").read_text().splitlines()
    assert json.loads(counted) == {"task": 0, "score": 1.0, "turns": 1}
