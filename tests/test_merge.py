"""TIES merges of real small checkpoints, and every merge that is no merge."""

import json
from pathlib import Path
from typing import Any

import pico
import pytest

from engine.checkpoints import check_complete
from engine.errors import CheckpointError
from engine.inheritance import MergeRefused
from engine.inheritance.merge import merge, ties
from engine.inheritance.tensors import equal, headers

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
    ties([family["a"]], [1.0], family["s"], tmp_path / "out", 1.0, True)
    assert equal(tmp_path / "out", family["a"])


def test_lambda_multiplies_the_merged_change(family: dict[str, Path], tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    config = ties([family["a"]], [1.0], family["s"], tmp_path / "out", 1.0, True, 0.5)
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

    ties([family["a"]], [1.0], family["s"], tmp_path / "out", 0.25, False)
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
