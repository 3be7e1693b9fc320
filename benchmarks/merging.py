"""How much memory a merge takes: peak over the size of one model.

    python benchmarks/merging.py [--layers 8] [--hidden 1024] [--vocabulary 65536] [--sources 2]

Checkpoints of random bf16 weights with one large embedding, in shards, each merge in a process of
its own. Printed: resident memory that belongs to the process (the files' pages are the system's),
less what it holds before it starts. The bound is two shards and the largest tensor; the baseline
mergekit's own ``run_merge`` with the same settings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SHARDS = 4


def write(folder: Path, seed: int, layers: int, hidden: int, vocabulary: int) -> None:
    """A Llama's tensors, without building one."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    inner, heads = 3 * hidden, hidden // 64
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        for name in "qkvo":
            shapes[f"{at}.self_attn.{name}_proj.weight"] = (hidden, hidden)
        for name in ("gate", "up"):
            shapes[f"{at}.mlp.{name}_proj.weight"] = (inner, hidden)
        shapes[f"{at}.mlp.down_proj.weight"] = (hidden, inner)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{at}.{name}.weight"] = (hidden,)
    folder.mkdir(parents=True)
    index: dict[str, str] = {}
    for number in range(SHARDS):
        names = list(shapes)[number::SHARDS]
        file = f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"
        save_file(
            {n: torch.randn(shapes[n]).bfloat16() for n in names}, folder / file, {"format": "pt"}
        )
        index.update(dict.fromkeys(names, file))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "vocab_size": vocabulary,
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(config))
    body = {"metadata": {}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(body))
    (folder / "tokenizer.json").write_text('{"model": {}, "added_tokens": []}')


def own_memory() -> int:
    """Anonymous resident memory of this process, in bytes."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("RssAnon"))


def measure(kind: str, folder: Path, sources: int) -> None:
    """Merge here and print the peak and the seconds."""
    from mergekit.merge import run_merge  # noqa: F401

    from engine.inheritance.merge import merge

    names = [folder / str(i) for i in range(1, sources + 1)]
    weights = [1 / sources] * sources
    start, peak, done = own_memory(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    if kind == "coevo":
        merge(names, weights, folder / "0", folder / "out", 0.5, True)
    else:
        theirs(folder, names, weights)
    done.set()
    watcher.join()
    print(peak[0] - start, time.monotonic() - began)


def theirs(folder: Path, names: list[Path], weights: list[float]) -> None:
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    config = {
        "merge_method": "ties",
        "base_model": str(folder / "0"),
        "models": [
            {"model": str(name), "parameters": {"weight": weight, "density": 0.5}}
            for name, weight in zip(names, weights, strict=True)
        ],
        "parameters": {"normalize": True},
        "dtype": "float32",
        "out_dtype": "bfloat16",
    }
    options = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True)
    run_merge(MergeConfiguration.model_validate(config), str(folder / "theirs"), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in (("layers", 8), ("hidden", 1024), ("vocabulary", 65536), ("sources", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--measure", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]), options.sources)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for i in range(options.sources + 1):
            folder = Path(scratch) / str(i)
            write(folder, i, options.layers, options.hidden, options.vocabulary)
        files = sorted((Path(scratch) / "0").glob("*.safetensors"), key=lambda p: p.stat().st_size)
        model = sum(path.stat().st_size for path in files)
        tensor = 2 * options.vocabulary * options.hidden
        bound = 2 * files[-1].stat().st_size + tensor
        print(f"one model: {model / 1e6:.0f} MB in {SHARDS} shards; {options.sources} sources")
        print(f"two shards and the largest tensor: {bound / model:.2f} of a model")
        for kind in ("coevo", "mergekit"):
            command = [sys.executable, __file__, "--measure", kind, scratch]
            command += ["--sources", str(options.sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peak, seconds = (float(part) for part in done.stdout.split()[-2:])
            print(f"{kind}: peak {peak / model:.2f} of a model, {seconds:.0f} s")


if __name__ == "__main__":
    main()
