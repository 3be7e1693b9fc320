"""Real HomeBench files: homes with their quirks, splits, and malformed rows."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from smart_home_data import (
    REAL,
    assert_beginnings_are_fair,
    folder,
    home,
    needs_real,
    row,
    rows_of,
)

from engine.domains.smart_home import DOMAIN
from engine.domains.smart_home.homes import HOUSE, parse_home
from engine.domains.smart_home.row import normalised, subset
from engine.errors import ConfigError, DataError

ON = "''' ding_room.light.turn_on()'''"
SIZES = {"train": 400, "validation": 150, "test": 300}


@needs_real
def test_real_splits_are_disjoint_by_id_and_by_content():
    splits = DOMAIN.load(REAL, 1, SIZES)
    parts = [splits.train, splits.validation, splits.test]
    assert [len(part) for part in parts] == [400, 150, 300]
    everything = [task for part in parts for task in part]
    assert len({task.id for task in everything}) == 850
    assert len({task.content for task in everything}) == 850
    problems = {(t.private["home"]["home_id"], normalised(t.instruction)) for t in everything}
    assert len(problems) == 850


@needs_real
def test_test_tasks_are_all_of_the_test_file_and_pool_tasks_none():
    test_ids = {each["id"] for each in rows_of(REAL / "test_sample.jsonl")}
    splits = DOMAIN.load(REAL, 1, {"train": 6000, "validation": 1000, "test": 3380})
    assert {task.id for task in splits.test} == test_ids
    assert not {task.id for task in (*splits.train, *splits.validation)} & test_ids


@needs_real
def test_splits_keep_the_shares_of_subsets_and_spread_over_homes():
    splits = DOMAIN.load(REAL, 1, SIZES)
    pool = Counter(subset(each["type"]) for each in rows_of(REAL / "train_pool.jsonl"))
    shares = Counter(task.private["type"] for task in splits.validation)
    for name, n in pool.items():
        assert shares[name] / 150 == pytest.approx(n / pool.total(), abs=0.02)
    per_home = Counter(task.private["home"]["home_id"] for task in splits.validation)
    assert max(per_home.values()) < 10


@needs_real
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_any_beginning_of_a_real_split_stands_for_the_whole(split):
    tasks = getattr(DOMAIN.load(REAL, 1, SIZES), split)
    assert_beginnings_are_fair([task.private["type"] for task in tasks])


@needs_real
def test_seeds_are_repeatable_and_differ():
    assert DOMAIN.load(REAL, 1, SIZES) == DOMAIN.load(REAL, 1, SIZES)
    other = DOMAIN.load(REAL, 2, SIZES)
    assert other.validation != DOMAIN.load(REAL, 1, SIZES).validation


@needs_real
def test_every_real_home_has_rooms_and_every_signature_a_known_device():
    for line in rows_of(REAL / "home_status_method.jsonl"):
        parsed = parse_home(line, "real")
        assert len([room for room in parsed.rooms if room != HOUSE]) == 12
        for method in parsed.methods:
            assert parsed.device(method.room, method.device) is not None
        for devices in parsed.rooms.values():
            for device in devices:
                names = [each.name for each in device.attributes]
                assert names == [name.strip() for name in names]


def test_a_home_is_read_with_its_quirks():
    parsed = parse_home(home(), "here")
    assert parsed.index() == {
        "ding_room": ["light", "curtain"],
        "kitchen": ["fan", "light"],
        "house": ["vacuum_robot"],
    }
    assert parsed.status("ding_room")["curtain"] == {"state": "open", "degree": 0}
    assert parsed.signatures() == [
        "ding_room.light.turn_on()",
        "ding_room.light.set_brightness(brightness: int 0..100)",
        "ding_room.curtain.set_degree(degree: int 0..100)",
        "kitchen.fan.set_speed(speed: str auto|low|high)",
        "kitchen.light.set_color(color: typing.Tuple[int, int, int])",
        "vacuum_robot.set_mode(mode: str auto|strong|sleep)",
        "vacuum_robot.set_cleaning_area(area: str)",
    ]


def test_homes_alike_but_for_the_id_have_one_fingerprint():
    brighter = home()
    brighter["home_status"]["ding_room"]["light"]["attributes"]["brightness"]["value"] = 58
    first, second, third = (parse_home(each, "") for each in (home(0), home(5), brighter))
    assert first.fingerprint == second.fingerprint != third.fingerprint


def test_repeated_and_contradictory_pool_rows_are_not_taught(tmp_path):
    pool = [
        row("one", ON, text="Turn on the light."),
        row("same", ON, text="turn on  the LIGHT"),
        row("yes", ON, text="Switch it on."),
        row("no", "'''error_input'''", "unexist_device", text="Switch it on."),
        row("tested", ON, text="Do t1."),
    ]
    splits = DOMAIN.load(folder(tmp_path / "d", pool=pool), 0, {"train": 1, "test": 1})
    assert [task.id for task in splits.train] == ["one"]
    with pytest.raises(DataError, match=r"train_pool\.jsonl: train: 2 tasks asked, 1 there are"):
        DOMAIN.load(tmp_path / "d", 0, {"train": 2})


def test_sizes_that_make_no_sense_are_refused(tmp_path):
    data = folder(tmp_path / "d")
    with pytest.raises(ConfigError, match="no split is called 'valid'"):
        DOMAIN.load(data, 0, {"valid": 1})
    with pytest.raises(ConfigError, match=r"sizes\.train"):
        DOMAIN.load(data, 0, {"train": -1})


def changed(value: Any, path: str, new: Any) -> Any:
    """A copy of ``value`` with the entry at a dotted path replaced, or deleted for None."""
    copied = copy.deepcopy(value)
    *parents, last = path.split("/")
    place = copied
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    if new is None:
        del place[last]
    else:
        place[last] = new
    return copied


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        ("id", None, "id: expected text, got None"),
        ("id", 4, "id: expected text, got 4"),
        ("input", "", "input: expected text, got ''"),
        ("output", "'''  '''", "output: expected at least one operation"),
        ("output", ["x"], "output: expected text"),
        ("home_id", "seven", "home_id: expected a whole number, got 'seven'"),
        ("home_id", True, "home_id: expected a whole number, got True"),
        ("home_id", 77, r"home_id: expected a home of home_status_method\.jsonl, got 77"),
        ("type", "multi_mix", "type: expected normal"),
        ("type", None, "type: expected text"),
        ("id", "t1", "id: expected an id not used before"),
    ],
)
def test_a_malformed_row_names_file_line_and_field(tmp_path, path, new, message):
    rows = [row("t1", ON), changed(row("t2", ON), path, new)]
    data = folder(tmp_path / "d", test=rows)
    with pytest.raises(DataError, match=rf"test_sample\.jsonl:2: {message}"):
        DOMAIN.load(data, 0, {"test": 1})


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        ("home_id", None, "home_id: expected a whole number"),
        ("home_status", [], "home_status: expected an object"),
        ("home_status/kitchen", 3, r"home_status\.kitchen: expected an object"),
        ("home_status/kitchen/fan", "on", r"home_status\.kitchen\.fan: expected an object"),
        ("home_status/kitchen/fan/state", None, r"home_status\.kitchen\.fan\.state: expected text"),
        (
            "home_status/ding_room/light/attributes/brightness/lowest",
            "low",
            r"home_status\.ding_room\.light\.attributes\.brightness\.lowest: expected a whole",
        ),
        (
            "home_status/ding_room/light/attributes/brightness/value",
            None,
            r"home_status\.ding_room\.light\.attributes\.brightness\.value: expected a value",
        ),
        (
            "home_status/kitchen/fan/attributes/speed/options",
            [1],
            r"home_status\.kitchen\.fan\.attributes\.speed\.options: expected a list of text",
        ),
        ("method", {}, "method: expected a list"),
        ("method/1/operation", None, r"method\[1\]\.operation: expected text"),
        ("method/1/parameters/0/type", None, r"method\[1\]\.parameters\[0\]\.type: expected text"),
        ("home_id", 0, "home_id: expected an id not used before"),
    ],
)
def test_a_malformed_home_names_file_line_and_field(tmp_path, path, new, message):
    data = folder(tmp_path / "d", homes=[home(0), changed(home(1), path, new)])
    with pytest.raises(DataError, match=rf"home_status_method\.jsonl:2: {message}"):
        DOMAIN.load(data, 0, {"test": 1})


def test_missing_and_garbled_files_say_which(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        DOMAIN.load(tmp_path / "nowhere", 0, {"test": 1})
    data = folder(tmp_path / "d")
    pool = data / "train_pool.jsonl"
    pool.write_text(json.dumps(row("a", ON)) + "\n\n{oops\n")
    with pytest.raises(DataError, match=r"train_pool\.jsonl:3: line: expected JSON"):
        DOMAIN.load(data, 0, {"test": 1})
    pool.unlink()
    with pytest.raises(DataError, match=r"train_pool\.jsonl: can't be read"):
        DOMAIN.load(data, 0, {"test": 1})


def test_numbers_written_as_text_are_numbers(tmp_path: Path):
    data = folder(tmp_path / "d", test=[changed(row("t", ON), "home_id", "0")])
    assert DOMAIN.load(data, 0, {"test": 1}).test[0].id == "t"
