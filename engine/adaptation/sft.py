"""The training process: ``python -m engine.adaptation.sft JOB`` with the job as JSON.

Weights are held in fp32 and multiplied in bf16 (autocast); the result is written in bf16. Prints
JSON lines: ``{note}`` first where turns are too long, ``{step, steps, loss}`` after each optimizer
step, then ``{samples, skipped, seconds}``
or ``{error}``.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.adaptation.encoding import IGNORED, Encoded, joined
from engine.adaptation.preparing import prepare
from engine.errors import TrainerError
from engine.serving.prompt import tokenizer_of


def _say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def main(job: Mapping[str, Any]) -> int:
    """Train and write the checkpoint to the job's ``out``. Returns the exit status."""
    began = time.monotonic()
    source, out = Path(job["checkpoint"]), Path(job["out"])
    tokenizer = tokenizer_of(source)
    try:
        prepared = prepare(tokenizer, Path(job["dataset"]), job["max_length"], job["switches"])
    except TrainerError as error:
        _say(error=str(error))
        return 1
    if prepared.warning:
        _say(note=prepared.warning)
    sequences = [joined(turns) for turns in prepared.sequences]
    model = _fit(source, sequences, job, int(tokenizer.pad_token_id or 0))
    if not _finite(model):
        _say(error="the weights are no numbers any more; lower adaptation.learning_rate")
        return 1
    _write(model, source, out)
    seconds = time.monotonic() - began
    _say(samples=prepared.samples, skipped=prepared.skipped, seconds=seconds)
    return 0


def _fit(source: Path, sequences: Sequence[Encoded], job: Mapping[str, Any], pad: int) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    model.config.use_cache = False
    if job["lora"]:
        model = _with_adapters(model, job["lora"])
    accumulation = min(job["batch_size"], len(sequences))
    steps = math.ceil(len(sequences) / accumulation) * job["epochs"]
    arguments = TrainingArguments(
        output_dir=job["out"],
        num_train_epochs=job["epochs"],
        per_device_train_batch_size=1,
        gradient_accumulation_steps=accumulation,
        learning_rate=job["learning_rate"],
        lr_scheduler_type="cosine",
        warmup_steps=round(steps * job["warmup"]),
        weight_decay=0.0,
        max_grad_norm=1.0,
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        seed=job["seed"],
        data_seed=job["seed"],
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    rows = [{"input_ids": list(one.ids), "labels": list(one.labels)} for one in sequences]
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=lambda batch: _collate(batch, pad),
        callbacks=[_reporter()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model.merge_and_unload() if job["lora"] else model


def _with_adapters(model: Any, lora: Mapping[str, Any]) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=lora["rank"],
        lora_alpha=lora["alpha"],
        lora_dropout=lora["dropout"],
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def _collate(batch: Sequence[Mapping[str, list[int]]], pad: int) -> dict[str, Any]:
    import torch

    width = max(len(row["input_ids"]) for row in batch)
    fill = {"input_ids": pad, "labels": IGNORED}
    made = {
        name: torch.tensor([row[name] + [value] * (width - len(row[name])) for row in batch])
        for name, value in fill.items()
    }
    mask = [[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in batch]
    return {**made, "attention_mask": torch.tensor(mask)}


def _reporter() -> Any:
    from transformers import TrainerCallback

    class Reporter(TrainerCallback):  # type: ignore[misc]
        """Says each optimizer step and its loss."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            loss = (logs or {}).get("loss")
            if loss is not None and math.isfinite(float(loss)):
                _say(step=state.global_step, steps=state.max_steps, loss=float(loss))

    return Reporter()


def _finite(model: Any) -> bool:
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def _write(model: Any, source: Path, out: Path) -> None:
    """The weights in bf16; tokenizer, template and generation settings as they were."""
    import torch

    model.config.use_cache = True
    model.to(torch.bfloat16).save_pretrained(out)
    for path in source.iterdir():
        written = path.name in ("config.json", "README.md") or ".safetensors" in path.name
        if path.is_file() and not written:
            shutil.copyfile(path, out / path.name)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
