"""Data in DVC's remotes: an S3 server of this test's own, a folder, what vanishes or doesn't
fit; and the freeing of what no ref needs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from dvc.repo import Repo
from git import Repo as Git
from runs import RunRepository, wait_for

from engine.cli import cli
from engine.collecting import collect, free
from engine.disk import size_text
from engine.dvc_store import DvcStore
from engine.dvc_text import read
from engine.errors import ArchiveError, ConfigError, DataError


def repository(root: Path, **sections: dict[str, object]) -> Path:
    root.mkdir(parents=True)
    Git.init(root).close()
    Repo.init(str(root)).close()
    configure(root, **sections)
    return root


def configure(root: Path, **sections: dict[str, object]) -> None:
    with Repo(str(root)) as repo, repo.config.edit("local") as config:
        for name, values in sections.items():
            config.setdefault(name, {}).update(values)


def weights(root: Path, name: str, files: int = 3) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"shard-{number}").write_bytes(f"{name}{number}".encode() * 1000)
    return folder


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A moto server in a process of its own, with a bucket."""
    with socket.socket() as free_port:
        free_port.bind(("127.0.0.1", 0))
        port = free_port.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    wait_for(lambda: answers(port), seconds=120)
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="k",
        aws_secret_access_key="s",
    )
    client.create_bucket(Bucket="data")
    client.close()
    yield url, server
    server.kill()
    server.wait()


def bucket(url: str) -> dict[str, dict[str, object]]:
    remote = {
        "url": "s3://data/dvc",
        "endpointurl": url,
        "access_key_id": "k",
        "secret_access_key": "s",
        "region": "us-east-1",
    }
    return {"remote": {"shared": remote}, "core": {"remote": "shared"}}


@pytest.mark.filterwarnings("default")  # of the S3 client's own
def test_only_what_is_named_goes_to_s3_and_comes_back(
    tmp_path: Path, s3: tuple[str, subprocess.Popen[bytes]]
) -> None:
    url, server = s3
    first = repository(tmp_path / "first", **bucket(url))
    store = DvcStore(first)
    sent, kept = (store.add(weights(first, name)) for name in ("sent", "kept"))
    assert store.push([sent]) == 4 and store.push([sent]) == 0
    second = DvcStore(repository(tmp_path / "second", **bucket(url)))
    assert second.fetch([sent]) == 4 and second.fetch([sent]) == 0
    back = second.materialise(sent, tmp_path / "back")
    assert (back / "shard-2").read_bytes() == (first / "sent" / "shard-2").read_bytes()
    with pytest.raises(DataError, match=r"kept: not on the DVC remote; .*coevo push"):
        second.fetch([kept])
    server.send_signal(signal.SIGKILL)
    server.wait()
    with pytest.raises(DataError, match=r"can't be reached .* what arrived stays"):
        store.push([kept])


def test_a_remote_that_vanishes_mid_push_is_named_and_gone_on_with(tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    settings = {"remote": {"shared": {"url": str(remote)}}, "core": {"remote": "shared"}}
    root = repository(tmp_path / "root", **settings)
    store = DvcStore(root)
    text = store.add(weights(root, "model", files=5))
    held = remote / "files" / "md5"
    held.mkdir(parents=True)
    with Repo(str(root)) as repo:
        lists = Path(repo.cache.local.oid_to_path(read(text).md5))
    taken = [entry["md5"][:2] for entry in json.loads(lists.read_text())][:2]
    for prefix in taken:
        (held / prefix).write_text("a file where a folder is due")
    with pytest.raises(DataError, match="run the same command again: what arrived stays"):
        store.push([text])
    assert not (held / read(text).md5[:2] / read(text).md5[2:]).exists(), "no list before its files"
    for prefix in set(taken):
        (held / prefix).unlink()
    assert store.push([text]) >= 3
    assert DvcStore(repository(tmp_path / "other", **settings)).fetch([text]) == 6


def test_a_model_too_big_for_the_disk_is_refused_with_the_figures(tmp_path: Path) -> None:
    remote = {"remote": {"shared": {"url": str(tmp_path / "r")}}, "core": {"remote": "shared"}}
    root = repository(tmp_path / "root", **remote)
    text = DvcStore(root).add(weights(root, "model"))
    huge = text.replace(f"size: {read(text).size}", f"size: {10**16}").replace(
        read(text).md5, "0" * 32 + ".dir"
    )
    for act in (
        lambda: DvcStore(root).fetch([huge]),
        lambda: DvcStore(root).materialise(huge, root / "there"),
    ):
        with pytest.raises(DataError, match=r"needs 10\.0 PB, but .* free: free .*nothing was"):
            act()


def test_a_push_to_a_folder_without_room_is_refused_with_the_figures(tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    settings = {"remote": {"shared": {"url": str(remote)}}, "core": {"remote": "shared"}}
    root = repository(tmp_path / "root", **settings)
    store = DvcStore(root)
    text = store.add(weights(root, "model"))
    [largest, *_] = (path for path in store.cache_folder.glob("??/*") if not path.suffix)
    largest.unlink()
    largest.touch()
    os.truncate(largest, shutil.disk_usage(root).free + 15 * 10**11)  # of holes
    with pytest.raises(DataError, match=r"the push needs .* free: free 1\.5 TB.*nothing was"):
        store.push([text])
    assert not list(remote.rglob("*"))


def test_worktrees_share_one_cache_and_its_remote(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    shared = "[core]\n    remote = shared\n['remote \"shared\"']\n    url = ../../r\n"
    (root / ".dvc" / "config.local").write_text(shared)
    with Git(root) as git:
        git.git.add(".dvc")
        git.git.commit("-m", "start")
        git.git.worktree("add", str(tmp_path / "tree"))
    tree = DvcStore(tmp_path / "tree")
    text = tree.add(weights(tmp_path / "tree", "model"))
    assert tree.cache_folder == DvcStore(root).cache_folder
    assert DvcStore(root).materialise(text, root / "here").is_dir()
    assert tree.push([text]) == 4
    assert list((tmp_path / "r").rglob("*.dir")), "a path in a file is from that file's folder"


# --- gc -----------------------------------------------------------------------------------------


def committed(root: Path, name: str, text: str, ref: str) -> None:
    """A commit that only ``ref`` reaches, no branch, with one .dvc text."""
    with Git(root) as git:
        (root / name).write_text(text)
        git.git.add(name)
        oid = git.git.commit_tree(git.git.write_tree(), m="kept")
        git.git.update_ref(ref, oid)
        git.git.rm("-q", "--cached", name)
        (root / name).unlink()


def test_gc_keeps_what_any_ref_names_and_frees_the_rest(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    store = DvcStore(root)
    texts = {name: store.add(weights(tmp_path, name)) for name in ("a", "b", "c", "free")}
    committed(root, "checkpoint.dvc", texts["a"], "refs/coevo/evo/hidden/1")
    committed(root, "provenance.json", json.dumps({"dataset": texts["b"]}), "refs/heads/other")
    (root / "work.dvc").write_text(texts["c"])
    copy = root / "checkpoints" / "0123456789ab"
    weights(copy.parent, copy.name)
    found = collect(root)
    assert copy in found.paths and len(found.paths) == 5, "a list, three files, a working copy"
    assert found.kept == 12 and found.bytes > 0
    free(found)
    assert not collect(root).paths and not copy.exists()
    for name in "abc":
        assert store.materialise(texts[name], tmp_path / f"back-{name}").is_dir()
    with pytest.raises(DataError, match="not in DVC's cache"):
        store.materialise(texts["free"], tmp_path / "gone")


def test_the_command_says_what_it_would_free_and_asks(
    opened: RunRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened.copied(tmp_path / "base")
    store = DvcStore(run.folder)
    store.add(weights(tmp_path, "free"))
    before = set(store.cache_folder.glob("??/*"))
    monkeypatch.chdir(run.folder)

    def gc(*options: str, said: str = "") -> str:
        done = CliRunner().invoke(cli, ["gc", *options], input=said, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return str(done.output)

    assert "to free: 4 objects and copies" in gc("--dry-run")
    assert "free it? [y/N]" in gc(said="n\n")
    figures = json.loads(gc("--dry-run", "--json"))
    assert figures["objects"] == len(figures["paths"]) == 4 and not figures["freed"]
    with pytest.raises(ConfigError, match="gc --json can't ask"):
        gc("--json")
    assert set(store.cache_folder.glob("??/*")) == before
    assert f"freed {size_text(figures['bytes'])}" in gc(said="y\n")
    assert {str(path) for path in before - set(store.cache_folder.glob("??/*"))} == {
        *figures["paths"]
    }
    store.add(weights(tmp_path, "more"))
    assert json.loads(gc("--yes", "--json"))["freed"]
    assert "to free: 0 objects" in gc("--yes")
    assert json.loads(run.ok("coevo", "replay", "pair/r000-seed", "--json"))["equal"]


def test_gc_asks_who_else_uses_a_cache_outside(tmp_path: Path) -> None:
    shared = {"cache": {"dir": str(tmp_path / "cache")}}
    root, other = (repository(tmp_path / name, **shared) for name in ("root", "other"))
    text = DvcStore(other).add(weights(tmp_path, "model"))
    (other / "model.dvc").write_text(text)
    with pytest.raises(ConfigError, match="--with DIR"):
        collect(root)
    assert not collect(root, [other]).paths
    assert len(collect(root, alone=True).paths) == 4
    with pytest.raises(ArchiveError, match="no git repository"):
        collect(root, [tmp_path])


def test_gc_waits_for_engines(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    code = (
        "import sys, time; from pathlib import Path; from engine.archive import lock\n"
        "with lock.held(Path(sys.argv[1]), 'evo'): print(flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(root / ".git")], stdout=subprocess.PIPE
    )
    assert holder.stdout and holder.stdout.readline()
    with pytest.raises(ArchiveError, match="an engine works on run evo"):
        collect(root)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert not collect(root).paths
