"""Random homes, written as lines of ``home_status_method.jsonl``."""

from __future__ import annotations

import random
from typing import Any

from engine.domains.smart_home.catalogue import KINDS, ROBOT_MODES, ROBOT_SHARE, ROOMS, Kind, Trait

MIN_ROOMS, MAX_ROOMS = 5, 8
MIN_DEVICES, MAX_DEVICES = 3, 6
_TUPLE = "typing.Tuple[int, int, int]"


def draw_home(rng: random.Random, home_id: int) -> dict[str, Any]:
    """One home: 5 to 8 rooms, each with a light and 2 to 5 other devices."""
    count = rng.randint(MIN_ROOMS, MAX_ROOMS)
    chosen = set(rng.sample(list(ROOMS), count))
    status: dict[str, Any] = {}
    methods: list[dict[str, Any]] = []
    for room in (room for room in ROOMS if room in chosen):
        content: dict[str, Any] = {"room_name": room}
        for kind in _kinds(rng, room):
            traits = [trait for trait in kind.traits if rng.random() < trait.share]
            content[kind.name] = {
                "state": rng.choice(kind.states),
                "attributes": dict(_attribute(rng, trait, kind) for trait in traits),
            }
            methods += _methods(room, kind, traits)
        status[room] = content
    if rng.random() < ROBOT_SHARE:
        status["VacuumRobot"] = _robot(rng)
        methods.append(_method("None", "vacuum_robot", "set_mode", ("mode", "str")))
        methods.append(_method("None", "vacuum_robot", "set_cleaning_area", ("area", "str")))
    return {"home_id": home_id, "method": methods, "home_status": status}


def _kinds(rng: random.Random, room: str) -> list[Kind]:
    light, *others = [kind for kind in KINDS if not kind.rooms or room in kind.rooms]
    extra = rng.sample(others, rng.randint(MIN_DEVICES, MAX_DEVICES) - 1)
    return [light, *(kind for kind in others if kind in extra)]


def _attribute(rng: random.Random, trait: Trait, kind: Kind) -> tuple[str, dict[str, Any]]:
    if trait.options:
        return trait.name, {"value": rng.choice(trait.options), "options": list(trait.options)}
    if trait.lowest is None or trait.highest is None:
        return trait.name, {"value": [rng.randint(0, 255) for _ in range(3)]}
    value = rng.randint(trait.lowest, trait.highest)
    if trait.highest == 100 and rng.random() < 0.5:
        value -= value % 10
    value = max(value, trait.lowest)
    if kind.name == "curtain":
        return " degree", {"value": value, "lowest": trait.lowest, "highest": str(trait.highest)}
    bounds = (trait.lowest, trait.highest)
    lowest, highest = bounds if rng.random() < 0.5 else map(str, bounds)
    return trait.name, {"value": value, "lowest": lowest, "highest": highest}


def _methods(room: str, kind: Kind, traits: list[Trait]) -> list[dict[str, Any]]:
    methods = [_method(room, kind.name, operation) for operation in kind.switches]
    for trait in traits:
        if trait.settable:
            argument = "int" if trait.numeric else "str" if trait.options else _TUPLE
            methods.append(_method(room, kind.name, f"set_{trait.name}", (trait.name, argument)))
    for operation, parameter in kind.unasked:
        methods.append(_method(room, kind.name, operation, (parameter, "str")))
    return methods


def _method(room: str, device: str, operation: str, *parameters: tuple[str, str]) -> dict[str, Any]:
    return {
        "room_name": room,
        "device_name": device,
        "operation": operation,
        "parameters": [{"name": name, "type": kind} for name, kind in parameters],
    }


def _robot(rng: random.Random) -> dict[str, Any]:
    return {
        "state": rng.choice(("on", "off")),
        "attributes": {
            "battery": {"value": rng.randint(10, 100), "lowest": 0, "highest": 100},
            "mode": {"value": rng.choice(ROBOT_MODES), "options": list(ROBOT_MODES)},
        },
    }
