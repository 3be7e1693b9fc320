"""Names and trailers: what git refuses we refuse, what git reads we read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from archive_case import FILES, RUN, begun, clean, git, offspring, one_round, repository
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.archive import Archive, HarnessDraft, refs, trailers
from engine.errors import ArchiveError

SLOTS = st.from_regex(r"[a-z0-9]{1,6}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)
RUNS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True)


@given(st.sampled_from(refs.BRANCH_KINDS), st.integers(0, 20_000), SLOTS, RUNS)
def test_refs_round_trip(kind: str, round_: int, slot: str, run: str) -> None:
    name = refs.named(kind, round_, slot)
    assert refs.parse(run, refs.full(run, name)) == name
    assert refs.parse_label(kind, name.label) == name
    assert refs.parse_state_entry(round_, refs.state_path(name)[-1]) == name
    assert refs.parse(run + "x", refs.full(run, name)) is None


def test_rounds_sort_by_number_and_slots_too() -> None:
    names = [
        refs.named("harness", r, s) for r, s in [(2, "k1"), (1, "k10"), (1, "k2"), (1000, "a")]
    ]
    assert [n.label for n in sorted(names, key=lambda n: n.order)] == [
        "r001-k2",
        "r001-k10",
        "r002-k1",
        "r1000-a",
    ]


@given(st.text(min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_run_name_we_take_is_one_that_git_takes(run: str) -> None:
    try:
        refs.check_run(run)
    except ArchiveError:
        return
    assert (
        subprocess.run(["git", "check-ref-format", f"refs/heads/{run}/evolution"]).returncode == 0
    )


@pytest.mark.parametrize("run", ["", "a/b", "..", "a..b", "a.lock", "-x", "a b", "x.", ".x", "@{"])
def test_bad_run_names(run: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"params\.yaml: run"):
        Archive.open(repository(tmp_path), run)


LINE = st.text(st.characters(codec="utf-8"), max_size=30)
KEYS = st.sampled_from(["Coevo-Kind", "Coevo-Adopts", "Coevo-Check", "Coevo-Op-F1"])


@given(LINE, st.lists(st.tuples(KEYS, LINE), max_size=5))
@settings(max_examples=120, deadline=None)
def test_trailers_are_read_as_git_reads_them(subject: str, rows: list[tuple[str, str]]) -> None:
    message = trailers.write(subject, [("Coevo-Kind", "x"), *rows])
    said = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=message.encode(), capture_output=True
    ).stdout.decode()
    parsed = trailers.parse(message)
    assert "".join(f"{key}: {value}\n" for key, value in parsed) == said
    wanted = [(key, trailers.clean(value)) for key, value in [("Coevo-Kind", "x"), *rows]]
    assert parsed == [(key, value) for key, value in wanted if value]


@pytest.mark.parametrize(
    "message",
    [
        "Subject\n\nBody line.\n\nCoevo-Kind: pair\nSigned-off-by: A <a@b>\n",
        "Subject\n\nBody: this\nis prose\n",
        "Coevo-Kind: subject only\n",
        "Subject\n\nKey: folded\n  over lines\nKey: again\n",
        "Subject\n\nKey : spaced\nOther:tight\n\n\n",
    ],
)
def test_messages_of_others(message: str) -> None:
    said = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=message.encode(), capture_output=True
    ).stdout.decode()
    assert "".join(f"{key}: {value}\n" for key, value in trailers.parse(message)) == said


def test_trailer_values_cant_forge_others(tmp_path: Path) -> None:
    run = begun(tmp_path)
    draft = HarnessDraft(
        1,
        "k1",
        FILES | {"a.py": b""},
        "Sub\n\nCoevo-Score: 1\n",
        check="ok\nCoevo-Kind: round\n\nx",
    )
    oid = run.archive.record_harness(draft)
    assert run.archive.harness(oid).check == "ok Coevo-Kind: round x"
    for key, wanted in {"Kind": "harness", "Score": ""}.items():
        shown = git(tmp_path, "log", "-1", f"--format=%(trailers:key=Coevo-{key},valueonly)", oid)
        assert shown == wanted
    assert git(tmp_path, "log", "-1", "--format=%s", oid) == "Sub Coevo-Score: 1"


PART = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=8),
    st.sampled_from([".git", ".GIT", ".git ", "git~1", ".gitmodules", ".g‌it", "..", "a.py", "a"]),
)
PATHS = st.lists(PART, min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(PATHS, st.binary(max_size=40), min_size=1, max_size=5))
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_workspace_is_kept_exactly_or_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    root = tmp_path / "r"
    archive = Archive.open(root if root.exists() else repository(root), RUN)
    label = f"r{len(archive.harnesses()):03d}-k1"
    try:
        oid = archive.record_harness(HarnessDraft(int(label[1:-3]), "k1", files, "Any"))
    except ArchiveError as err:
        assert label in str(err)
        return
    assert dict(archive.harness(oid).files) == files
    listed = git(root, "ls-tree", "-r", "-z", "--name-only", oid).strip("\0").split("\0")
    assert sorted(listed) == sorted(files)
    assert clean(root)


def test_resolving_what_people_type(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    archive = run.archive
    for text in (made["k1"], made["k1"][:8], made["k1"].upper(), "r001-k1", "harness/r001-k1"):
        assert archive.resolve(text) == ("harness", made["k1"])
    for text in (f"{RUN}/harness/r001-k1", f"refs/heads/{RUN}/harness/r001-k1"):
        assert archive.resolve(text) == ("harness", made["k1"])
    assert archive.resolve("r001-k3") == ("harness", made["k3"])
    assert archive.resolve(f"refs/coevo/{RUN}/rejected/r001-k3") == ("harness", made["k3"])
    assert archive.resolve("r001-sft") == ("checkpoint", made["sft"])
    assert archive.resolve("r001-k1-a") == ("pair", made["pair"])
    for text in ("tip", "r001", f"{RUN}/evolution", "evolution"):
        assert archive.resolve(text) == ("round", made["end"])
    assert archive.round("r000").oid == run.round
    assert archive.read("r001-k1", "harness.py") == b"# 1 one\n"
    assert archive.list("tip", "briefs") == ["briefs/k1.md"]


def test_what_is_unknown_comes_with_a_hint(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    with pytest.raises(ArchiveError, match=r"did you mean r001-k3 or r001-k2|did you mean r001-"):
        run.archive.resolve("r001-k9")
    typo = made["k1"][:5] + ("0" if made["k1"][5] != "0" else "1") + made["k1"][6:10]
    with pytest.raises(ArchiveError, match=rf"did you mean {made['k1'][:10]} \(harness r001-k1\)"):
        run.archive.resolve(typo)
    with pytest.raises(ArchiveError, match="coevo log lists"):
        run.archive.resolve("zzzz")
    with pytest.raises(ArchiveError, match="is a pair, not a harness"):
        run.archive.harness(made["pair"])
    with pytest.raises(ArchiveError, match="has no file"):
        run.archive.read("r001-k1", "nope.py")
    empty = Archive.open(tmp_path, "other")
    with pytest.raises(ArchiveError, match="no finished round"):
        empty.resolve("tip")
    with pytest.raises(ArchiveError, match="its archive is empty"):
        empty.resolve("r000-seed")


def test_a_prefix_of_several_is_refused_with_the_choices(tmp_path: Path) -> None:
    run = begun(tmp_path)
    drafts = [offspring(run.harness, r, "k1", f"# {r}\n") for r in range(1, 2000)]
    oids = run.archive.record_harnesses(drafts)
    heads = [oid[:4] for oid in oids]
    shared = next(head for head in heads if heads.count(head) > 1)
    with pytest.raises(ArchiveError, match="stands for several: harness r"):
        run.archive.resolve(shared)
