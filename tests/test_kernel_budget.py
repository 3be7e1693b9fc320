import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernel import workspace
from kernel.budget import added_lines, refusals

LINES = st.lists(st.sampled_from(["a", "b", "if x:", "    return", "", "}"]), max_size=12)
TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))
FILES = st.dictionaries(
    st.sampled_from(["harness.py", "tools/a.py", "b c.txt", "ü.md"]), TEXT.map(str.encode)
)


def git(folder, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder, files: dict[str, bytes]) -> None:
    if git(folder, "ls-files"):
        git(folder, "rm", "-rq", ".")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")


@settings(max_examples=12, deadline=None)
@given(FILES, FILES)
@example(
    {"harness.py": b"a\nb\nif x:\n    return\n}\n"}, {"moved.py": b"a\nb\nif x:\n    return\n"}
)
@example({"harness.py": b"a\nb"}, {"harness.py": b"a\nb\n"})
def test_counts_as_git_does_between_commits(tmp_path_factory, base, new):
    folder = tmp_path_factory.mktemp("repo")
    git(folder, "init", "-q")
    commit(folder, base)
    commit(folder, new)
    numstat = git(folder, "diff", "--numstat", "HEAD~1", "HEAD").splitlines()
    assert added_lines(base, new) == sum(int(line.split("\t")[0]) for line in numstat)


def test_notes_and_deletions_are_free():
    base = {"harness.py": b"a\nb\nc\n", "evolve_notes.md": b""}
    new = {"harness.py": b"a\n", "evolve_notes.md": b"x\n" * 99, "evolution_report.md": b"y\n"}
    assert added_lines(base, new) == 0
    assert added_lines(new, {**base, "sub/evolve_notes.md": b"x\ny\n"}) == 4


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("data.bin", b"\x00\x01", "binary"),
        ("latin.py", b"\xff", "binary"),
        ("long.py", b"x" * 2001, "2001 characters"),
        (".gitattributes", b"* -diff\n", "no git files"),
    ],
)
def test_what_cannot_be_counted_is_refused(name, content, reason):
    assert reason in refusals({}, {name: content})[0]
    assert refusals({name: content}, {name: content}) == []
    with pytest.raises(ValueError, match=reason):
        added_lines({}, {name: content})


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.py", "a/../../x.py", "", "a//b"])
def test_a_path_stays_inside(name):
    with pytest.raises(ValueError, match="relative path"):
        workspace.code({name: b""})


def test_a_workspace_on_disk_holds_no_links(tmp_path):
    (tmp_path / "harness.py").write_bytes(b"x")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_bytes(b"\0")
    assert workspace.read(tmp_path) == {"harness.py": b"x"}
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(ValueError, match="out is a symlink"):
        workspace.read(tmp_path)
