"""One request to a generated home: its wording and the command it stands for.

Relative requests are made from a target inside the bounds, as in the real data, so that no
reference needs clipping: "by N percent" is the distance in points from the present value.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.domains.smart_home.catalogue import KINDS, LEVELS, ROBOT_MODES, ROOMS, Kind, Trait
from engine.domains.smart_home.homes import HOUSE, Attribute, Home
from engine.domains.smart_home.scoring import ERROR

SWITCH, NUMBER, EXTREME, OPTION, RELATIVE, LEVEL, ROBOT = (
    "switch", "number", "extreme", "option", "relative", "level", "robot",
)  # fmt: skip

VALID_FORMS = {SWITCH: 36, NUMBER: 26, OPTION: 16, RELATIVE: 12, EXTREME: 4, LEVEL: 3, ROBOT: 3}
"""How often each form is asked for, in percent of the feasible requests."""

MISSING_DEVICE, MISSING_ATTRIBUTE = "unexist_device", "unexist_attribute"
MISSING = {MISSING_DEVICE: 64, MISSING_ATTRIBUTE: 36}
"""Why a request is infeasible, in percent (as in the real data)."""

_SET = (
    "Set the {trait} of the {device} {room} to {value}",
    "Set the {trait} of the {device} to {value} {room}",
    "Set the {device} {trait} {room} to {value}",
    "Adjust the {trait} of the {device} {room} to {value}",
    "Change the {device} {trait} to {value} {room}",
)
_MODE = (
    "Set the {device} {room} to {value} mode",
    "Switch the {device} {room} to {value} mode",
    "Set the mode of the {device} {room} to {value}",
    "Change the {device} mode to {value} {room}",
)
_SWING = (
    "Set the swing of the {device} {room} to {value}",
    "Change the {device} swing to {value} {room}",
    "Set the {device} {room} to the {value} swing position",
)
_UP = (
    "Increase the {trait} of the {device} {room} by {value}",
    "Increase the {trait} of the {device} by {value} {room}",
    "Raise the {device} {trait} {room} by {value}",
    "Turn the {trait} of the {device} {room} up by {value}",
)
_DOWN = (
    "Decrease the {trait} of the {device} {room} by {value}",
    "Decrease the {trait} of the {device} by {value} {room}",
    "Lower the {device} {trait} {room} by {value}",
    "Turn the {trait} of the {device} {room} down by {value}",
)
_EXTREME = (
    "Set the {trait} of the {device} {room} to the {value}",
    "Set the {device} {trait} to the {value} {room}",
    "Set the {trait} of the {device} to the {value} level {room}",
)
_ROBOT_MODE = ("Set the vacuum robot to {value} mode", "Switch the vacuum robot to {value} mode")
_ROBOT_AREA = (
    "Set the vacuum robot to clean the {value}",
    "Set the cleaning area of the vacuum robot to the {value}",
)


@dataclass(frozen=True)
class Request:
    """Wording without a full stop; the command, or ``error_input``; what it is about."""

    wording: str
    command: str
    about: str


@dataclass(frozen=True)
class Subject:
    """A device in a room, with the attribute a request is about (None: the device itself)."""

    room: str
    kind: Kind
    trait: Trait | None = None
    now: Attribute | None = None

    @property
    def about(self) -> str:
        return f"{self.room}.{self.kind.name}"


def feasible(rng: random.Random, home: Home, form: str) -> Request | None:
    """A request of this form that the home can fulfil; None where it has nothing for it."""
    if form == ROBOT:
        return _robot(rng, home) if HOUSE in home.rooms else None
    if form == SWITCH:
        return _switch(rng, _evenly(rng, _present(home)))
    subjects = [each for each in _attributed(home) if each.trait and _fits(form, each.trait)]
    if form == LEVEL:
        # "One level up from auto" means nothing.
        subjects = [each for each in subjects if each.now and each.now.value in LEVELS]
    return _set(rng, _evenly(rng, subjects), form) if subjects else None


def infeasible(rng: random.Random, home: Home, reason: str) -> Request | None:
    """A request that the home can't fulfil for this reason; None where it has nothing for it."""
    if reason == MISSING_DEVICE:
        if HOUSE not in home.rooms and rng.random() < 0.1:
            found: Request | None = _robot(rng, home)
        else:
            found = _about_missing_device(rng, home)
    else:
        subjects = [each for each in _lacking(home) if each.trait]
        found = _any_set(rng, _evenly(rng, subjects)) if subjects else None
    return found and Request(found.wording, ERROR, found.about)


def _evenly(rng: random.Random, subjects: Sequence[Subject]) -> Subject:
    """A subject, by kind of device first, so that rare kinds are asked for as often as lights."""
    kind = rng.choice([kind for kind in KINDS if any(each.kind is kind for each in subjects)])
    return rng.choice([each for each in subjects if each.kind is kind])


def _present(home: Home) -> list[Subject]:
    return [
        Subject(room, kind)
        for room in home.rooms
        for kind in KINDS
        if home.device(room, kind.name) is not None
    ]


def _attributed(home: Home) -> list[Subject]:
    """Every attribute that an instruction may set, with its present value."""
    found = []
    for subject in _present(home):
        device = home.device(subject.room, subject.kind.name)
        for trait in subject.kind.traits:
            now = device.attribute(trait.name) if device else None
            if now is not None and trait.spoken:
                found.append(Subject(subject.room, subject.kind, trait, now))
    return found


def _lacking(home: Home) -> list[Subject]:
    """Every attribute that a device of its kind may have and this one has not."""
    found = []
    for subject in _present(home):
        device = home.device(subject.room, subject.kind.name)
        for trait in subject.kind.traits:
            if trait.spoken and device and device.attribute(trait.name) is None:
                found.append(Subject(subject.room, subject.kind, trait))
    return found


def _about_missing_device(rng: random.Random, home: Home) -> Request | None:
    """Mostly a device that its room lacks, now and then a room that the home lacks."""
    absent = [room for room in ROOMS if room not in home.rooms]
    rooms = absent if rng.random() < 0.1 else [room for room in home.rooms if room in ROOMS]
    room = rng.choice(rooms)
    kinds = [
        kind
        for kind in KINDS
        if home.device(room, kind.name) is None and (not kind.rooms or room in kind.rooms)
    ]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    traits = [trait for trait in kind.traits if trait.spoken]
    if not traits or rng.random() < 0.4:
        return _switch(rng, Subject(room, kind))
    return _any_set(rng, Subject(room, kind, rng.choice(traits)))


def _switch(rng: random.Random, subject: Subject) -> Request:
    operation = rng.choice(list(subject.kind.switches))
    wording = rng.choice(subject.kind.switches[operation])
    return _request(rng, subject, wording, "", f"{operation}()", subject.about)


def _any_set(rng: random.Random, subject: Subject) -> Request:
    """A request about an attribute that isn't there, in a form that would suit it."""
    forms = [form for form in _FORMS if subject.trait and _fits(form, subject.trait)]
    return _set(rng, subject, rng.choice(forms))


def _set(rng: random.Random, subject: Subject, form: str) -> Request:
    assert subject.trait is not None
    templates, said, value = _FORMS[form](rng, subject.trait, subject.now)
    call = f"set_{subject.trait.name}({value})"
    return _request(rng, subject, rng.choice(templates), said, call, f"{subject.about}.{call}")


def _request(
    rng: random.Random, subject: Subject, wording: str, said: str, call: str, about: str
) -> Request:
    # A plural before an attribute ("lights brightness") is nothing that people say.
    names = subject.kind.spoken[: 1 if "{device} {trait}" in wording else None]
    filled = wording.format(
        device=rng.choice(names),
        room=ROOMS[subject.room],
        trait=subject.trait.spoken if subject.trait else "",
        value=said,
    )
    return Request(filled, f"{subject.room}.{subject.kind.name}.{call}", about.partition("(")[0])


def _fits(form: str, trait: Trait) -> bool:
    if form == OPTION:
        return bool(trait.options)
    if form == LEVEL:
        return set(LEVELS) <= set(trait.options)
    return trait.numeric and trait.settable


Wording = tuple[tuple[str, ...], str, object]
"""Templates to choose from, the value as it is said, the value as it is set."""


def _number(rng: random.Random, trait: Trait, now: Attribute | None) -> Wording:
    value = _target(rng, trait)
    return _SET, rng.choice((str(value), _said(value, trait.unit))), value


def _extreme(rng: random.Random, trait: Trait, now: Attribute | None) -> Wording:
    word, value = rng.choice((("maximum", trait.highest), ("minimum", trait.lowest)))
    return _EXTREME, word, value


def _option(rng: random.Random, trait: Trait, now: Attribute | None) -> Wording:
    value = rng.choice(trait.options)
    templates = {"mode": _MODE, "swing": _SWING}.get(trait.name, _SET)
    return templates, value.replace("_", " "), value


def _relative(rng: random.Random, trait: Trait, now: Attribute | None) -> Wording:
    present = now.value if now else _target(rng, trait)
    target = present
    while target == present:
        target = _target(rng, trait)
    unit = rng.choice(("%", " percent")) if trait.unit == "%" else trait.unit
    return _UP if target > present else _DOWN, _said(abs(target - present), unit), target


def _level(rng: random.Random, trait: Trait, now: Attribute | None) -> Wording:
    present = now.value if now else rng.choice(LEVELS)
    target = rng.choice([level for level in LEVELS if level != present])
    steps = LEVELS.index(target) - LEVELS.index(present)
    return _UP if steps > 0 else _DOWN, _said(abs(steps), " levels"), target


_FORMS: dict[str, Callable[[random.Random, Trait, Attribute | None], Wording]] = {
    NUMBER: _number,
    EXTREME: _extreme,
    OPTION: _option,
    RELATIVE: _relative,
    LEVEL: _level,
}


def _target(rng: random.Random, trait: Trait) -> int:
    """A value as people ask for it: any degree of a room, else a multiple of ten."""
    assert trait.lowest is not None and trait.highest is not None
    if trait.highest - trait.lowest < 20:
        return rng.randint(trait.lowest, trait.highest)
    return 10 * rng.randint(-(-trait.lowest // 10), trait.highest // 10)


def _said(number: int, unit: str) -> str:
    singular = unit.removesuffix("s") if number == 1 else unit
    return f"{number}{singular}"


def _robot(rng: random.Random, home: Home) -> Request:
    if rng.random() < 0.5:
        value = said = rng.choice(ROBOT_MODES)
        templates, operation = _ROBOT_MODE, "set_mode"
    else:
        room = rng.choice([room for room in home.rooms if room in ROOMS])
        said = ROOMS[room].split(" the ")[1]
        # The real data's spelling of a cleaning area: the room's key without separators.
        value = room.replace("_", "")
        templates, operation = _ROBOT_AREA, "set_cleaning_area"
    call = f"vacuum_robot.{operation}"
    return Request(rng.choice(templates).format(value=said), f"{call}({value})", call)
