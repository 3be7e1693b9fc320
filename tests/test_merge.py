"""TIES merges of real small checkpoints, and every merge that is no merge."""

import json
from pathlib import Path
from typing import Any

import pico
import pytest

from engine.checkpoints import check_complete
from engine.errors import CheckpointError
from engine.inheritance import MergeRefused, ties
from engine.inheritance.merge import merge
from engine.inheritance.tensors import headers

# mergekit reads numpy's old names when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:numpy.core is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pico")
    made = {name: pico.write_checkpoint(folder / name, i) for i, name in enumerate("sab")}
    return {
        **made,
        "wide": pico.write_checkpoint(folder / "wide", hidden=64),
        "untied": pico.write_checkpoint(folder / "untied", tied=False),
        "foreign": pico.write_checkpoint(folder / "foreign", extra="zwölf Boxkämpfer jagen"),
    }


def loaded(folder: Path) -> dict[str, Any]:
    """All tensors of a checkpoint."""
    from safetensors.torch import load_file

    return {k: v for path in folder.glob("*.safetensors") for k, v in load_file(path).items()}


def equal(one: Path, other: Path) -> bool:
    mine, theirs = loaded(one), loaded(other)
    return mine.keys() == theirs.keys() and all(bool((mine[k] == theirs[k]).all()) for k in mine)


def change(folder: Path, source: Path, edit: Any) -> Path:
    """A copy of ``source`` whose tensors ``edit`` has changed."""
    from safetensors.torch import load_file, save_file

    folder.mkdir()
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_merge_of_two_is_a_checkpoint_unlike_both(
    family: dict[str, Path], tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    out = tmp_path / "out"
    config = merge([family["a"], family["b"]], [0.3, 0.7], family["s"], out, 0.5, True)
    assert config["models"] == [
        {"model": "a", "parameters": {"weight": 0.3, "density": 0.5}},
        {"model": "b", "parameters": {"weight": 0.7, "density": 0.5}},
    ]
    assert (config["base_model"], config["out_dtype"]) == ("s", "bfloat16")
    check_complete(out)
    assert headers(out).keys() == headers(family["s"]).keys()
    assert {entry.dtype for entry in headers(out).values()} == {"BF16"}
    assert not any(equal(out, family[name]) for name in "sab")
    model = AutoModelForCausalLM.from_pretrained(out)
    assert model.config.tie_word_embeddings
    for name in ("tokenizer.json", "chat_template.jinja", "tokenizer_config.json"):
        assert (out / name).read_bytes() == (family["s"] / name).read_bytes()


def test_ties_of_one_source_at_density_one_is_that_source(
    family: dict[str, Path], tmp_path: Path
) -> None:
    ties.write(family["s"], [family["a"]], ties.Settings((1.0,), 1.0, True, 1.0), tmp_path / "out")
    assert equal(tmp_path / "out", family["a"])


def test_lambda_multiplies_the_merged_change(family: dict[str, Path], tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    config = merge([family["a"]], [1.0], family["s"], tmp_path / "out", 1.0, True, 0.5)
    assert config["parameters"] == {"normalize": True, "lambda": 0.5}
    base, whole, out = (
        load_file(folder / "model.safetensors")
        for folder in (family["s"], family["a"], tmp_path / "out")
    )
    name = "model.layers.0.mlp.up_proj.weight"
    half = base[name].float() + (whole[name].float() - base[name].float()) / 2
    torch.testing.assert_close(out[name].float(), half, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_lambda_that_is_none_is_refused(
    family: dict[str, Path], tmp_path: Path, scale: float
) -> None:
    with pytest.raises(MergeRefused, match=r"lambda .* is not above 0"):
        merge([family["a"]], [1.0], family["s"], tmp_path / "out", 0.5, True, scale)


def test_density_keeps_that_share_of_each_change(family: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file

    merge([family["a"]], [1.0], family["s"], tmp_path / "out", 0.25, False)
    base, out = (load_file(p / "model.safetensors") for p in (family["s"], tmp_path / "out"))
    name = "model.layers.0.mlp.up_proj.weight"
    changed = (base[name] != out[name]).float().mean().item()
    assert 0.2 < changed <= 0.26


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("wide", "here, .* there"),
        ("untied", "only one of them ties"),
        ("foreign", "different vocabularies"),
        ("s", "every source is the base"),
    ],
)
def test_what_doesnt_fit_is_refused(
    family: dict[str, Path], tmp_path: Path, other: str, reason: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(MergeRefused, match=reason):
        merge([family[other]], [1.0], family["s"], out, 0.5, True)
    assert list(tmp_path.iterdir()) == []


def test_a_merge_that_only_repeats_an_input_is_refused(
    family: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(MergeRefused, match="equals its input a"):
        merge([family["s"], family["a"]], [0.5, 0.5], family["s"], tmp_path / "out", 1.0, True)
    near = [0.002, 0.998]
    with pytest.raises(MergeRefused, match=r"near copy of its input a: apart by 0\.\d+%"):
        merge([family["b"], family["a"]], near, family["s"], tmp_path / "out", 1.0, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("weights", [[0.5, 0.6], [-0.5, 1.5], [float("nan"), 1.0], [1.0]])
def test_weights_that_are_no_mixture_are_refused(
    family: dict[str, Path], tmp_path: Path, weights: list[float]
) -> None:
    with pytest.raises(MergeRefused):
        merge([family["a"], family["b"]], weights, family["s"], tmp_path / "out", 0.5, True)


def test_no_number_is_refused(family: dict[str, Path], tmp_path: Path) -> None:
    def spoil(tensors: dict[str, Any]) -> None:
        tensors["model.norm.weight"][3] = float("nan")

    bad = change(tmp_path / "bad", family["a"], spoil)
    with pytest.raises(MergeRefused, match=r"bad: model\.norm\.weight holds NaN"):
        merge([bad], [1.0], family["s"], tmp_path / "out", 0.5, True)


def test_a_missing_tensor_is_refused(family: dict[str, Path], tmp_path: Path) -> None:
    less = change(tmp_path / "less", family["a"], lambda tensors: tensors.pop("model.norm.weight"))
    with pytest.raises(MergeRefused, match=r"only one of them has model\.norm\.weight"):
        merge([less], [1.0], family["s"], tmp_path / "out", 0.5, True)


def test_truncated_weights_are_an_error(family: dict[str, Path], tmp_path: Path) -> None:
    cut = change(tmp_path / "cut", family["a"], lambda tensors: None)
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="truncated"):
        merge([cut], [1.0], family["s"], tmp_path / "out", 0.5, True)
    weights.write_text(json.dumps({"no": "weights"}))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        merge([cut], [1.0], family["s"], tmp_path / "out", 0.5, True)


def test_it_is_mergekit_s_own_merge(tmp_path: Path) -> None:
    """Bit for bit, on tensors without ties among their changes: of any number of sources."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    made = {name: pico.write_checkpoint(tmp_path / name, i) for i, name in enumerate("sabc")}
    for folder in made.values():
        as_floats(folder)
    out, weights = tmp_path / "out", [0.2, 0.5, 0.3]
    sources = [made[name] for name in "abc"]
    config = dict(merge(sources, weights, made["s"], out, 0.4, True, 0.9))
    config["base_model"] = str(made["s"])
    config["models"] = [{**m, "model": str(tmp_path / m["model"])} for m in config["models"]]
    options = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True)
    run_merge(MergeConfiguration.model_validate(config), str(tmp_path / "theirs"), options)
    assert equal(out, tmp_path / "theirs")


def as_floats(folder: Path) -> None:
    """The checkpoint in fp32, with a little noise: bf16 has many equal changes."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(len(folder.name) + ord(folder.name[-1]))
    tensors = {k: v.float() + torch.randn(v.shape) / 1000 for k, v in loaded(folder).items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))


@pytest.mark.parametrize("tied", [True, False])
def test_shards_stay_shards_and_each_tensor_keeps_its_type(tied: bool, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folders = [pico.write_checkpoint(tmp_path / str(i), i, tied=tied) for i in range(3)]
    for folder in folders:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder, max_shard_size="30KB")
    out = tmp_path / "out"
    merge(folders[1:], [0.5, 0.5], folders[0], out, 0.5, True)
    check_complete(out)
    assert len(list(out.glob("*.safetensors"))) > 2
    shapes = {k: (h.dtype, h.shape) for k, h in headers(folders[0]).items()}
    assert {k: (h.dtype, h.shape) for k, h in headers(out).items()} == shapes
    again = AutoModelForCausalLM.from_pretrained(out)
    assert again.config.tie_word_embeddings is tied
    assert ("lm_head.weight" in shapes) is not tied


def test_an_architecture_that_mergekit_lacks_is_merged_whole(tmp_path: Path) -> None:
    """Qwen3.5, the paper's: linear and full attention side by side, fp32 beside bf16, and the
    draft head's tensors, which the library itself doesn't load."""
    from mergekit.architecture.json_definitions import NAME_TO_ARCH
    from transformers import AutoModelForCausalLM

    folders = [qwen(tmp_path / name, seed) for seed, name in enumerate("sab")]
    assert "Qwen3_5ForCausalLM" not in NAME_TO_ARCH
    out = tmp_path / "out"
    merge(folders[1:], [0.4, 0.6], folders[0], out, 0.6, True)
    assert headers(out).keys() == headers(folders[0]).keys() >= {"mtp.fc.weight"}
    kinds = {name: header.dtype for name, header in headers(out).items()}
    assert set(kinds.values()) == {"BF16", "F32"} and kinds["mtp.fc.weight"] == "BF16"
    mine, base = loaded(out), loaded(folders[0])
    assert all(bool((mine[name] != base[name]).any()) for name in mine)
    AutoModelForCausalLM.from_pretrained(out)


def qwen(folder: Path, seed: int) -> Path:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    pico.write_checkpoint(folder)
    torch.manual_seed(seed)
    config = Qwen3_5TextConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    )
    Qwen3_5ForCausalLM(config).save_pretrained(folder)
    tensors = {
        name: (tensor + torch.randn(tensor.shape) / 10).to(
            torch.float32 if name.endswith(("A_log", "dt_bias")) else torch.bfloat16
        )
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    tensors["mtp.fc.weight"] = torch.randn(8, 8).bfloat16()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_unlike_architectures_are_refused_by_name(family: dict[str, Path], tmp_path: Path) -> None:
    """Heads and rotation don't show in any shape."""

    def other(key: str, value: object) -> Path:
        folder = change(tmp_path / key, family["a"], lambda tensors: None)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, key: value}))
        return folder

    for key, value in (("model_type", "qwen3"), ("num_attention_heads", 4), ("head_dim", 8)):
        with pytest.raises(MergeRefused, match=rf"unlike architectures: {key} is .* here"):
            merge([other(key, value)], [1.0], family["s"], tmp_path / "out", 0.5, True)


def test_fp8_is_refused(family: dict[str, Path], tmp_path: Path) -> None:
    import torch

    def squeeze(tensors: dict[str, Any]) -> None:
        name = "model.layers.0.mlp.up_proj.weight"
        tensors[name] = tensors[name].to(torch.float8_e4m3fn)

    squeezed = [change(tmp_path / n, family[n], squeeze) for n in ("s", "a")]
    with pytest.raises(MergeRefused, match=r"F8_E4M3; quantised weights"):
        merge(squeezed[1:], [1.0], squeezed[0], tmp_path / "out", 0.5, True)
