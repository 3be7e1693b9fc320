"""A rule-based reference solver: reads the instruction and the tools' answers, nothing else."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from kernel.contract import HostWorld

DEVICES = {
    "water heater": "water_heater",
    "air conditioner": "air_conditioner",
    "heating system": "heating",
    "heating": "heating",
    "garage door": "garage_door",
    "blinds": "blinds",
    "curtain": "curtain",
    "air purifier": "air_purifiers",
    "dehumidifier": "dehumidifiers",
    "humidifier": "humidifier",
    "aromatherapy": "aromatherapy",
    "trash": "trash",
    "media player": "media_player",
    "light": "light",
}
ATTRIBUTES = (
    "brightness", "temperature", "intensity", "interval", "volume", "degree", "swing", "mode",
)  # fmt: skip
ROOMS = (
    "master bedroom", "guest bedroom", "living room", "dining room", "study room", "kitchen",
    "bathroom", "foyer", "corridor", "balcony", "garage", "store room",
)  # fmt: skip
LEVELS = ["low", "medium", "high"]


def solve(instruction: str, world: HostWorld) -> str:
    """The commands for an instruction, from the world's own tools."""
    state = json.loads(asyncio.run(world.call("inspect_home", {})))
    signatures = {}
    for line in asyncio.run(world.call("list_methods", {})).splitlines():
        target, _, arguments = line.partition("(")
        signatures[target] = arguments.rstrip(")")
    parts = re.split(r", and |, | and ", instruction.rstrip("."))
    return "{" + ",".join(_command(part.lower(), state, signatures) for part in parts) + "}"


def _command(part: str, state: dict[str, Any], signatures: dict[str, str]) -> str:
    if "vacuum robot" in part:
        target, value = _robot(part)
        return f"{target}({value})" if target in signatures else "error_input"
    room_name = re.search(rf"(?:in|on) the ({'|'.join(ROOMS)})", part)
    assert room_name, part
    room = room_name[1].replace("dining room", "ding_room").replace(" ", "_")
    about = part.replace(room_name[0], "").strip()
    device = next((key for name, key in DEVICES.items() if name in about), "fan")
    operation = _switch(about, device)
    if operation:
        target = f"{room}.{device}.{operation}"
        return f"{target}()" if target in signatures else "error_input"
    attribute = _attribute(about, device)
    target = f"{room}.{device}.set_{attribute}"
    if target not in signatures:
        return "error_input"
    present = state[room][device][attribute]
    return f"{target}({_value(about, present, signatures[target])})"


def _robot(part: str) -> tuple[str, str]:
    mode = re.search(r"to (\w+) mode", part)
    if mode:
        return "vacuum_robot.set_mode", mode[1]
    room = next(room for room in ROOMS if room in part)
    area = room.replace("dining room", "ding room").replace(" ", "")
    return "vacuum_robot.set_cleaning_area", area


def _switch(about: str, device: str) -> str:
    if re.search(r"\b(set|adjust|change|increase|decrease|raise|lower|to|by)\b", about):
        return ""
    power = re.match(r"(?:turn|switch) .*\b(on|off)\b", about)
    if power:
        return f"turn_{power[1]}"
    if device == "trash":
        return "pack"
    verb = re.match(r"(?:fully |start |please )?(open|close|play|pause|stop)", about)
    return verb[1] if verb else ""


def _attribute(about: str, device: str) -> str:
    if "speed" in about:
        return "speed" if device == "fan" else "fan_speed"
    return next(name for name in ATTRIBUTES if name in about)


def _value(about: str, present: Any, signature: str) -> str:
    change = re.search(r"by (\d+)", about)
    if change:
        sign = 1 if re.search(r"\b(increase|raise|up)\b", about) else -1
        if isinstance(present, str):
            return LEVELS[LEVELS.index(present) + sign * int(change[1])]
        return str(present + sign * int(change[1]))
    bounds = re.search(r"(-?\d+)\.\.(-?\d+)", signature)
    if bounds:
        if "maximum" in about:
            return bounds[2]
        return bounds[1] if "minimum" in about else re.findall(r"\d+", about)[0]
    options = signature.split(" ", 2)[2].split("|")
    said = about.replace("fan only", "fan_only")
    # The last one said: a device's own name ("heating") may also be an option.
    return max(options, key=lambda option: _last(said, option))


def _last(text: str, word: str) -> int:
    found = [match.start() for match in re.finditer(rf"\b{word}\b", text)]
    return found[-1] if found else -1
