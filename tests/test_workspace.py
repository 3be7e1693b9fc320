"""A harness on disk: what is read back is what was written, and nothing lands outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import DataError
from engine.workspace import read_workspace, write_workspace

FILES = {"harness.py": b"x = 1\n", "mechanisms/own.py": b"y = 2\n"}


def test_a_workspace_comes_back_as_it_was(tmp_path: Path):
    write_workspace(FILES, tmp_path / "a" / "harness")
    assert read_workspace(tmp_path / "a" / "harness") == FILES


@pytest.mark.parametrize(
    "name", ["../out.py", "/tmp/out.py", "a/../../out.py", "", ".", "a//b", "a\0b"]
)
def test_unsafe_names_are_refused_before_anything_is_written(tmp_path: Path, name: str):
    with pytest.raises(DataError, match="no plain relative path"):
        write_workspace({**FILES, name: b"evil"}, tmp_path / "harness")
    assert list(tmp_path.iterdir()) == []
