"""Records: round trips, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.records import (
    Adapted,
    Cost,
    Edited,
    Offspring,
    Opened,
    from_bytes,
    read,
    to_bytes,
    write,
)

texts = st.text(max_size=20)
costs = st.builds(
    Cost, *(st.integers(0, 10**9) for _ in range(4)), st.floats(0, 1e6, allow_nan=False)
)
offspring = st.builds(
    Offspring,
    slot=texts,
    harness=texts,
    status=st.sampled_from(["valid", "rejected", "duplicate"]),
    base=texts,
    adopts=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    reasons=st.lists(texts, max_size=3).map(tuple),
    repaired=st.booleans(),
)


@given(st.builds(Edited, st.lists(offspring, max_size=4).map(tuple), costs))
def test_a_record_comes_back_as_it_was(record: Edited) -> None:
    assert from_bytes(to_bytes(record), Edited, "x") == record


def test_writing_leaves_one_file(tmp_path: Path) -> None:
    record = Opened(1, "evo", "p", "r")
    write(tmp_path / "round" / "open.json", record)
    write(tmp_path / "round" / "open.json", record)
    assert [p.name for p in (tmp_path / "round").iterdir()] == ["open.json"]
    assert read(tmp_path / "round" / "open.json", Opened) == record


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a record 'opened'"),
        (to_bytes(Adapted(None, None)), "not a record 'opened' of schema 1"),
        (to_bytes(Opened(1, "evo", "p", "r")).replace(b'"round": 1', b'"round": "x"'), "round: "),
    ],
)
def test_a_wrong_record_is_named_with_the_mend(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_bytes(data, Opened, "round/open.json")
    assert str(error.value).startswith("round/open.json: ")
    assert said in str(error.value) and "run `dvc repro` again" in str(error.value)


def test_a_missing_record_says_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"open\.json: missing; run `dvc repro`"):
        read(tmp_path / "open.json", Opened)
