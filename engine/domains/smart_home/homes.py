"""One home in HomeBench's format: rooms, devices, their state, and the methods they have.

The format's quirks are met here and nowhere else: attribute names with a leading space, bounds
that are numbers or strings, and a device of the whole house that stands among the rooms under
a CamelCase key (``VacuumRobot``) while its methods name it ``vacuum_robot`` in room ``"None"``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.domains.reading import fault, integer, mapping, sequence, text_field

HOUSE = "house"
"""The room under which devices of the whole house are listed; commands to them name no room."""


@dataclass(frozen=True)
class Attribute:
    """One attribute of a device: its value now, and its bounds or options where it has them."""

    name: str
    value: Any
    lowest: int | None = None
    highest: int | None = None
    options: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """What a value may be, in a few characters ('' where the format doesn't say)."""
        if self.options:
            return "|".join(self.options)
        return "" if self.lowest is None else f"{self.lowest}..{self.highest}"


@dataclass(frozen=True)
class Device:
    """A device and its state."""

    name: str
    state: str
    attributes: tuple[Attribute, ...] = ()

    def attribute(self, name: str) -> Attribute | None:
        return next((found for found in self.attributes if found.name == name), None)

    def status(self) -> dict[str, Any]:
        """State and values, for a reader."""
        return {"state": self.state} | {each.name: each.value for each in self.attributes}


@dataclass(frozen=True)
class Method:
    """One operation of a device; ``parameters`` are pairs of name and type."""

    room: str
    device: str
    operation: str
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def target(self) -> str:
        """The command without its arguments, as an answer must spell it."""
        prefix = "" if self.room == HOUSE else f"{self.room}."
        return f"{prefix}{self.device}.{self.operation}"


@dataclass(frozen=True)
class Home:
    """A home: devices by room, and every method in the order of the file.

    ``fingerprint`` is the same for homes that differ in nothing but the id.
    """

    home_id: int
    rooms: Mapping[str, tuple[Device, ...]]
    methods: tuple[Method, ...]
    fingerprint: str = ""

    def index(self) -> dict[str, list[str]]:
        """The compact index: rooms and the names of their devices."""
        return {room: [device.name for device in devices] for room, devices in self.rooms.items()}

    def device(self, room: str, name: str) -> Device | None:
        return next((each for each in self.rooms.get(room, ()) if each.name == name), None)

    def status(self, room: str) -> dict[str, dict[str, Any]]:
        """The state of a room's devices."""
        return {device.name: device.status() for device in self.rooms[room]}

    def signatures(self, room: str | None = None) -> list[str]:
        """Method signatures such as ``kitchen.light.set_brightness(brightness: int 0..100)``."""
        chosen = [method for method in self.methods if room is None or method.room == room]
        return [f"{method.target}({self._parameters(method)})" for method in chosen]

    def _parameters(self, method: Method) -> str:
        device = self.device(method.room, method.device)
        shown = []
        for name, kind in method.parameters:
            attribute = device.attribute(name) if device else None
            allowed = attribute.domain if attribute else ""
            shown.append(f"{name}: {kind} {allowed}".rstrip())
        return ", ".join(shown)


def parse_home(row: Mapping[str, Any], where: str) -> Home:
    """A line of ``home_status_method.jsonl``. Raises DataError naming ``where`` and the field."""
    home_id = integer(row.get("home_id"), "home_id", where)
    rooms: dict[str, tuple[Device, ...]] = {}
    for key, value in mapping(row.get("home_status"), "home_status", where).items():
        field = f"home_status.{key}"
        content = mapping(value, field, where)
        if "attributes" in content:
            rooms[HOUSE] = (*rooms.get(HOUSE, ()), _device(_snake(key), content, field, where))
        else:
            rooms[key] = tuple(
                _device(name, device, f"{field}.{name}", where)
                for name, device in content.items()
                if name != "room_name"
            )
    if not rooms:
        raise fault(where, "home_status", "at least one room", row.get("home_status"))
    methods = tuple(
        _method(method, f"method[{number}]", where)
        for number, method in enumerate(sequence(row.get("method"), "method", where))
    )
    return Home(home_id, rooms, methods, fingerprint(row))


def _device(name: str, value: Any, field: str, where: str) -> Device:
    content = mapping(value, field, where)
    state = text_field(content, "state", where, f"{field}.")
    attributes = mapping(content.get("attributes"), f"{field}.attributes", where)
    return Device(
        name,
        state,
        tuple(
            _attribute(key, each, f"{field}.attributes.{key.strip()}", where)
            for key, each in attributes.items()
        ),
    )


def _attribute(key: str, value: Any, field: str, where: str) -> Attribute:
    content = mapping(value, field, where)
    if "value" not in content:
        raise fault(where, f"{field}.value", "a value", None)
    options = sequence(content.get("options", []), f"{field}.options", where)
    if not all(isinstance(option, str) for option in options):
        raise fault(where, f"{field}.options", "a list of text", options)
    lowest = highest = None
    if "lowest" in content or "highest" in content:
        lowest = integer(content.get("lowest"), f"{field}.lowest", where)
        highest = integer(content.get("highest"), f"{field}.highest", where)
    return Attribute(key.strip(), content["value"], lowest, highest, tuple(options))


def _method(value: Any, field: str, where: str) -> Method:
    content = mapping(value, field, where)
    room = text_field(content, "room_name", where, f"{field}.")
    parameters = sequence(content.get("parameters"), f"{field}.parameters", where)
    pairs = []
    for number, parameter in enumerate(parameters):
        prefix = f"{field}.parameters[{number}]"
        each = mapping(parameter, prefix, where)
        pairs.append(
            (
                text_field(each, "name", where, f"{prefix}."),
                text_field(each, "type", where, f"{prefix}."),
            )
        )
    return Method(
        HOUSE if room == "None" else room,
        text_field(content, "device_name", where, f"{field}."),
        text_field(content, "operation", where, f"{field}."),
        tuple(pairs),
    )


def fingerprint(row: Mapping[str, Any]) -> str:
    """What makes two homes the same: everything in their lines but the id."""
    text = json.dumps([row["home_status"], row["method"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
