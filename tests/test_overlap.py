"""What splits may not share: ids, evened contents, groups; and texts that are almost the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domains import Task
from engine.errors import DataError
from engine.near import SHINGLE, THRESHOLD, Near, incomparable, near_duplicates, parted
from engine.overlap import Overlap, even, overlaps, repeats, require_disjoint


def task(name: str, content: str, instruction: str = "", group: str = "") -> Task:
    return Task(name, instruction, {}, {}, content, group=group)


@pytest.mark.parametrize(
    ("text", "evened"),
    [
        ("Turn ON  the\nlight.", "turn on the light"),
        ('"Well," she said: (yes)!', "well she said yes"),
        ("What is 3 + 4?", "what is 3 + 4"),
        ("What is 3 * 4?", "what is 3 * 4"),
        ("from 12 to 1 2", "from 12 to 1 2"),
        ("20% of -5", "20 % of -5"),
        ("a < b and a > b", "a < b and a > b"),
        ("Straße well-known don't", "strasse well known don t"),
    ],
)
def test_evened_text_keeps_what_carries_meaning(text: str, evened: str) -> None:
    assert even(text) == evened
    assert even(evened) == evened


@given(st.text())
def test_evening_twice_changes_nothing(text: str) -> None:
    assert even(even(text)) == even(text)


def test_each_kind_of_overlap_is_found_and_named() -> None:
    parts = {
        "train": [task("a", "one"), task("b", "two", group="g"), task("c", "Two!")],
        "validation": [task("d", "ONE."), task("b", "three", group="h")],
        "test": [task("e", "four", group="g"), task("f", "five", group="")],
    }
    assert overlaps(parts) == [
        Overlap("id", ("train", "validation"), "b", "b"),
        Overlap("content", ("train", "validation"), "a", "d"),
        Overlap("group", ("train", "test"), "b", "e"),
    ]
    assert repeats(parts["train"], "content") == 1
    assert repeats(parts["train"], "group") == 0, "no group is no group in common"


@pytest.mark.parametrize(
    ("train", "validation", "said"),
    [
        (task("a", "x"), task("a", "y"), "its id stands in train too"),
        (task("a", "Do it."), task("b", "do it"), "its content stands in train too"),
        (task("a", "x", group="q1"), task("b", "y", group="q1"), "its group stands in train too"),
        (task("a", "x"), task("b", " "), "task b in validation: content is blank"),
        (task("a", "!"), task("b", "!"), "its content stands in train too"),
    ],
)
def test_splits_that_share_are_refused(train: Task, validation: Task, said: str) -> None:
    with pytest.raises(DataError, match=said):
        require_disjoint({"train": [train], "validation": [validation], "test": []})


def test_an_id_twice_in_one_split_is_refused_and_a_content_is_not() -> None:
    require_disjoint({"train": [task("a", "x", group="g"), task("b", "x", group="g")]})
    with pytest.raises(DataError, match="task a: its id stands twice in train"):
        require_disjoint({"train": [task("a", "x"), task("a", "y")]})


def test_the_setting_is_what_stands_before_the_instruction() -> None:
    said = "Turn on the light."
    words = ["turn", "on", "the", "light"]
    assert parted(task("a", "home 7|turn on the light", said)) == ("home 7", words)
    assert parted(task("a", "turn on the light", said)) == ("", words)
    assert parted(task("a", "another text", said)) == ("", ["another", "text"])


TEN = "one two three four five six seven eight nine ten"


def test_nearness_worked_by_hand() -> None:
    # Ten words have 8 shingles. An eleventh adds one: 8 of 9. A new last word: 7 of 9.
    parts = {
        "train": [task("a", TEN)],
        "validation": [task("b", TEN + " eleven"), task("c", TEN.replace("ten", "x"))],
    }
    assert near_duplicates(parts) == [Near(("train", "validation"), "a", "b", 8 / 9)]


def test_the_same_words_in_another_setting_are_not_near() -> None:
    parts = {
        "train": [task("a", "h1|" + TEN, TEN)],
        "validation": [task("b", "h2|" + TEN, TEN), task("c", f"h1|{TEN} x", TEN + " x")],
    }
    assert near_duplicates(parts) == [Near(("train", "validation"), "a", "c", 8 / 9)]


def test_within_a_split_and_for_the_same_content_nothing_is_near() -> None:
    parts = {"train": [task("a", TEN), task("b", TEN + " x")], "test": [task("c", TEN.upper())]}
    assert near_duplicates(parts) == [Near(("train", "test"), "b", "c", 8 / 9)]


def test_digests_cannot_be_compared() -> None:
    tasks = [task("a", "0a1b2c"), task("b", "two words"), task("c", "h|turn on", "Turn on.")]
    assert incomparable(tasks) == 1
    assert near_duplicates({"train": tasks[:1], "test": [task("d", "0a1b2c")]}) == []


WORDS = st.lists(st.sampled_from("abcd"), min_size=2, max_size=12).map(" ".join)


def nearest(texts: Sequence[str], text: str) -> float:
    """The greatest Jaccard index by definition, over texts that aren't the same."""

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[i : i + SHINGLE]) for i in range(max(len(words) - SHINGLE, 0) + 1)}

    own = shingles(text)
    others = [shingles(each) for each in texts if shingles(each) != own]
    return max((len(own & each) / len(own | each) for each in others), default=0.0)


@given(st.lists(WORDS, max_size=12, unique=True), st.lists(WORDS, max_size=12, unique=True))
def test_the_index_finds_what_comparing_all_pairs_finds(
    train: list[str], validation: list[str]
) -> None:
    parts = {
        "train": [task(f"t{n}", text) for n, text in enumerate(train)],
        "validation": [task(f"v{n}", text) for n, text in enumerate(validation)],
    }
    found = {each.second: each.jaccard for each in near_duplicates(parts) if each.jaccard < 1}
    expected = {f"v{n}": nearest(train, text) for n, text in enumerate(validation)}
    at_one = {each.second for each in near_duplicates(parts) if each.jaccard == 1}
    near = {name: j for name, j in expected.items() if j >= THRESHOLD and name not in at_one}
    assert found == pytest.approx(near)
