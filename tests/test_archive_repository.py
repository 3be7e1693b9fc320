"""Plain git around the archive: clone, push, gc, hostile settings, and states that aren't ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from archive_case import RUN, Run, begun, clean, git, measured, offspring, one_round, repository

from engine.archive import Archive, RoundDraft
from engine.errors import ArchiveError

ROOT = Path(__file__).parents[1]
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b")


def listing(archive: Archive) -> list[tuple[str, str]]:
    entries = [
        *archive.harnesses(include_rejected=True),
        *archive.checkpoints(),
        *archive.pairs(),
        *archive.rounds(),
    ]
    return [(entry.ref, entry.oid) for entry in entries]


# --- travelling ---------------------------------------------------------------------------------


def test_one_branch_is_enough_to_rebuild_everything(tmp_path: Path) -> None:
    run = begun(tmp_path / "here")
    one_round(run)
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(tmp_path / "here", "push", "-q", str(tmp_path / "remote.git"), f"{RUN}/evolution")
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), "there")
    there = Archive.open(tmp_path / "there", RUN)
    assert listing(there) == listing(run.archive)
    assert git(tmp_path / "there", "for-each-ref", f"refs/heads/{RUN}") == git(
        tmp_path / "here", "for-each-ref", f"refs/heads/{RUN}"
    )
    state = f"refs/coevo/{RUN}/state^{{tree}}"
    assert git(tmp_path / "there", "rev-parse", state) == git(tmp_path / "here", "rev-parse", state)
    made = one_round(Run(there, run.harness, run.checkpoint, run.pair, run.round), 2)
    assert there.recover() == (0, 0, 0, 0)
    assert there.tip() and git(tmp_path / "there", "rev-parse", f"{RUN}/evolution") == made["end"]
    assert clean(tmp_path / "there")


def test_a_pulled_round_is_taken_in(tmp_path: Path) -> None:
    run = begun(tmp_path / "here")
    git(tmp_path, "clone", "-q", "here", "there")
    there = Archive.open(tmp_path / "there", RUN)
    one_round(run)
    git(tmp_path / "there", "fetch", "-q", "origin", f"{RUN}/evolution:{RUN}/evolution")
    there.recover()
    assert listing(there) == listing(run.archive)
    one_round(Run(there, run.harness, run.checkpoint, run.pair, run.round), 2)
    measured(run.archive, "r002-x-a", run.harness, run.checkpoint, 0.1, 2)
    run.archive.record_round(RoundDraft(2, run.pair, False, "Apart"))
    git(
        tmp_path / "here",
        "fetch",
        "-q",
        str(tmp_path / "there"),
        f"+{RUN}/evolution:{RUN}/evolution",
    )
    with pytest.raises(ArchiveError, match="two machines went on from the same round"):
        run.archive.recover()


def test_a_round_that_two_machines_made_is_refused(tmp_path: Path) -> None:
    run = begun(tmp_path / "here")
    git(tmp_path, "clone", "-q", "here", "there")
    there = Archive.open(tmp_path / "there", RUN)
    run.archive.record_harness(offspring(run.harness, 1, "k1", "# mine\n"))
    one_round(Run(there, run.harness, run.checkpoint, run.pair, run.round), 1)
    git(
        tmp_path / "here",
        "fetch",
        "-q",
        str(tmp_path / "there"),
        f"+{RUN}/evolution:{RUN}/evolution",
    )
    with pytest.raises(ArchiveError, match="two machines made round 1 apart"):
        run.archive.recover()


def test_gc_after_all_branches_are_gone_loses_nothing(tmp_path: Path) -> None:
    run = begun(tmp_path)
    one_round(run)
    before = listing(run.archive)
    for ref in git(tmp_path, "for-each-ref", "--format=%(refname)", "refs/heads").split():
        git(tmp_path, "update-ref", "-d", ref)
    git(tmp_path, "reflog", "expire", "--expire=now", "--all")
    git(tmp_path, "gc", "--prune=now", "-q")
    archive = Archive.open(tmp_path, RUN)
    assert archive.recover().refs == 9
    assert listing(archive) == before
    assert clean(tmp_path)


def test_many_offspring_stay_a_few_files(tmp_path: Path) -> None:
    run = begun(tmp_path)
    git(
        tmp_path,
        *AUTHOR,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    )
    git(tmp_path, *AUTHOR, "tag", "-a", "v1", "-m", "peeled")
    git(tmp_path, "pack-refs", "--all")
    oids = [
        run.archive.record_harness(offspring(run.harness, r, "k1", f"# {r}\n"))
        for r in range(1, 281)
    ]
    rows = git(tmp_path, "for-each-ref", "--format=%(objectname)", f"refs/heads/{RUN}/harness")
    assert sorted(rows.split()) == sorted([*oids, run.harness])
    assert len(list((tmp_path / ".git/refs/heads" / RUN / "harness").iterdir())) < 280
    assert len(list((tmp_path / ".git/objects/pack").glob("*.pack"))) <= 46
    assert git(tmp_path, "count-objects") == "0 objects, 0 kilobytes"
    assert git(tmp_path, "describe", "--tags", "main") == "v1"
    assert [h.oid for h in run.archive.harnesses(limit=3)] == oids[-3:]
    assert git(tmp_path, "show-ref", "-d", "--tags").count("\n") == 1
    assert clean(tmp_path)


def test_a_burst_under_the_lock_has_its_branches_when_it_ends(tmp_path: Path) -> None:
    run = begun(tmp_path)
    listed = ("for-each-ref", "--format=%(objectname)", f"refs/heads/{RUN}/harness")
    with run.archive.lock():
        oids = [
            oid
            for r in range(1, 81)
            for oid in run.archive.record_harnesses(
                [offspring(run.harness, r, f"k{i}", f"# {r} {i}\n") for i in range(8)]
            )
        ]
        seen = git(tmp_path, *listed).split()
        assert set(oids[:60]) <= set(seen)
        assert len(seen) < len(oids) < len(seen) + 300
        assert run.archive.resolve("r080-k7") == ("harness", oids[-1])
    assert sorted(git(tmp_path, *listed).split()) == sorted([*oids, run.harness])
    assert run.archive.recover() == (0, 0, 0, 0)
    assert len(list((tmp_path / ".git/refs/heads" / RUN / "harness").iterdir())) < 300


def test_state_shares_finished_rounds(tmp_path: Path) -> None:
    run = begun(tmp_path)
    one_round(run, 1)
    before = git(tmp_path, "ls-tree", f"refs/coevo/{RUN}/state:00xx")
    made = one_round(run, 2)
    after = git(tmp_path, "ls-tree", f"refs/coevo/{RUN}/state:00xx").splitlines()
    assert after[:2] == before.splitlines()
    rows = git(tmp_path, "ls-tree", "-r", f"refs/coevo/{RUN}/state")
    assert f"160000 commit {made['k3']}\t00xx/r002/rejected-k3" in rows
    assert f"160000 commit {made['end']}\tevolution" in rows


# --- the user's own git -------------------------------------------------------------------------


def test_hostile_settings_change_nothing(tmp_path: Path) -> None:
    home, hooks, template = (tmp_path / name for name in ("home", "hooks", "template"))
    for folder in (home, hooks, template / "hooks"):
        folder.mkdir(parents=True)
    names = ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-checkout")
    for folder in (hooks, template / "hooks"):
        for name in names:
            (folder / name).write_text("#!/bin/sh\nsleep 5\nexit 1\n")
            (folder / name).chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[user]\n\tname = Ada <L>\n\temail = ada@example.org\n\tsigningkey = none\n"
        f"[commit]\n\tgpgsign = true\n\ttemplate = {tmp_path}/missing\n"
        f"[gpg]\n\tprogram = /nonexistent/gpg\n[core]\n\thooksPath = {hooks}\n"
        f"\tautocrlf = true\n\tfsmonitor = /nonexistent\n\tcommentChar = C\n"
        f"[init]\n\ttemplateDir = {template}\n[trailer]\n\tseparators = '#'\n"
    )
    root = repository(tmp_path / "repository")
    code = (
        "import sys; sys.path.insert(0, 'tests'); from pathlib import Path\n"
        "from archive_case import *; from engine.archive import branches\n"
        "run = begun(Path(sys.argv[1])); one_round(run)\n"
        "branches.PACKS = branches.LOOSE_REFS = 0\n"
        "run.archive.record_harness(offspring(run.harness, 2, 'k1', 'a\\r\\nb\\n'))\n"
        "run.archive.notes_rebuild(); run.archive.recover()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        env={**os.environ, "HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = git(root, "log", "-1", "--format=%an|%ae|%cn|%G?", f"{RUN}/harness/r002-k1")
    assert shown == "Ada L|ada@example.org|Ada L|N"
    raw = subprocess.run(
        ["git", "-C", str(root), "cat-file", "blob", f"{RUN}/harness/r002-k1:harness.py"],
        capture_output=True,
    ).stdout
    assert raw == b"a\r\nb\n"
    assert clean(root)


def test_without_an_identity_commits_are_coevos(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    code = (
        "import sys; sys.path.insert(0, 'tests'); from pathlib import Path\n"
        "from archive_case import *; seed_harness(Archive.open(Path(sys.argv[1]), RUN))"
    )
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, str(root)], env=env, cwd=ROOT, check=True)
    wanted = git(root, "config", "--system", "--get", "user.name", check=False) or "CoEvo"
    assert git(root, "log", "-1", "--format=%an", f"{RUN}/harness/r000-seed") == wanted


def test_detached_head_dirty_tree_and_linked_worktree_are_fine(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    git(root, *AUTHOR, "commit", "-q", "--allow-empty", "-m", "first")
    git(root, "checkout", "-q", "--detach")
    (root / "dirty.txt").write_text("not committed")
    git(root, "add", "dirty.txt")
    before = git(root, "status", "--porcelain")
    run = begun(root)
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
    linked = Archive.open(tmp_path / "linked", RUN)
    made = one_round(Run(linked, run.harness, run.checkpoint, run.pair, run.round))
    assert run.archive.round("tip").oid == made["end"]
    assert git(root, "status", "--porcelain") == before
    assert linked.gitdir == run.archive.gitdir


# --- states that aren't the archive's -----------------------------------------------------------


def test_no_usable_repository(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="not in a git repository"):
        Archive.open(tmp_path, RUN)
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(ArchiveError, match="bare repository"):
        Archive.open(tmp_path / "bare.git", RUN)
    begun(tmp_path / "full")
    git(
        tmp_path,
        "clone",
        "-q",
        "--depth=1",
        "-b",
        f"{RUN}/evolution",
        f"file://{tmp_path}/full",
        "s",
    )
    with pytest.raises(ArchiveError, match=r"shallow clone.*--unshallow"):
        Archive.open(tmp_path / "s", RUN)
    git(tmp_path / "full", "config", "uploadpack.allowFilter", "true")
    options = ("-q", "--filter=blob:none", "--no-checkout")
    git(tmp_path, "clone", *options, f"file://{tmp_path}/full", "p")
    with pytest.raises(ArchiveError, match="partial clone"):
        Archive.open(tmp_path / "p", RUN)
    git(tmp_path, "init", "-q", "--object-format=sha256", "long")
    with pytest.raises(ArchiveError, match="sha256"):
        Archive.open(tmp_path / "long", RUN)
    (tmp_path / "full/.git/config").write_text("[core\n")
    with pytest.raises(ArchiveError, match="config"):
        Archive.open(tmp_path / "full", RUN)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_someone_else(tmp_path: Path) -> None:
    begun(tmp_path)
    for path in (tmp_path / ".git", tmp_path):
        os.chown(path, 1234, 1234)
    with pytest.raises(ArchiveError, match=r"not owned.*git config --global --add safe\.directory"):
        Archive.open(tmp_path, RUN)


def test_refs_that_are_not_the_archives(tmp_path: Path) -> None:
    root = repository(tmp_path)
    git(
        root,
        *AUTHOR,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    )
    head = git(root, "rev-parse", "HEAD")
    git(root, "branch", RUN)
    with pytest.raises(ArchiveError, match=f"a branch named exactly {RUN} exists"):
        Archive.open(root, RUN)
    git(root, "branch", "-D", RUN)
    for branch in (f"{RUN}/harness", f"{RUN}/notes", f"{RUN}/harness/mine", f"{RUN}/evolution/x"):
        git(root, "branch", branch)
        with pytest.raises(ArchiveError, match=rf"branch {branch} is not the archive's"):
            Archive.open(root, RUN)
        git(root, "branch", "-D", branch)
    git(root, "branch", f"{RUN}/evolution")
    with pytest.raises(ArchiveError, match=f"points at {head}, which is not a round commit"):
        Archive.open(root, RUN)
    git(root, "branch", "-D", f"{RUN}/evolution")
    git(root, "update-ref", f"refs/coevo/{RUN}/state", head)
    with pytest.raises(ArchiveError, match=f"{head}, which is not an archive state"):
        Archive.open(root, RUN)
    blob = git(root, "hash-object", "-w", "--stdin", data="x")
    git(root, "update-ref", f"refs/coevo/{RUN}/state", blob)
    with pytest.raises(ArchiveError, match="which is no commit here"):
        Archive.open(root, RUN)
    git(root, "update-ref", "-d", f"refs/coevo/{RUN}/state")
    assert Archive.open(root, RUN).tip() is None


def test_runs_of_one_repository_are_apart(tmp_path: Path) -> None:
    first, second = begun(tmp_path, "one"), begun(tmp_path, "one.b")
    assert first.archive.recover() == second.archive.recover() == (0, 0, 0, 0)
    assert len(first.archive.harnesses()) == len(second.archive.harnesses()) == 1
    with pytest.raises(ArchiveError, match="nothing in run one is called"):
        first.archive.resolve("one.b/harness/r000-seed")


def test_a_lost_object_is_named(tmp_path: Path) -> None:
    run = begun(tmp_path)
    for pack in (tmp_path / ".git/objects/pack").iterdir():
        pack.unlink()
    with pytest.raises(ArchiveError, match="is missing or broken"):
        Archive.open(tmp_path, RUN).harness(run.harness)


def test_a_lock_that_stays_is_named_and_removed_at_the_next_start(tmp_path: Path) -> None:
    run = begun(tmp_path)
    lock = run.archive.gitdir / f"refs/coevo/{RUN}/state.lock"
    lock.touch()
    with pytest.raises(ArchiveError, match=f"refs/coevo/{RUN}/state.lock"):
        run.archive.record_harness(offspring(run.harness, 1, "k1", "# 1\n"))
    assert run.archive.recover().locks == 1
    assert run.archive.record_harness(offspring(run.harness, 1, "k1", "# 1\n"))
    assert clean(tmp_path)
