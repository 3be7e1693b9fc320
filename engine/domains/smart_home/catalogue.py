"""The rooms, devices and attributes that generated homes are made of (HomeBench's own).

``set_color`` and the media player's song, artist and style are listed as methods of a home but
asked for by no instruction, as in the real data: their arguments hold commas or spaces, which the
official counting cuts apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LEVELS = ("low", "medium", "high")
"""What "by N levels" steps through."""

_SPEEDS = ("auto", *LEVELS)
_SWINGS = ("auto", "up", "middle", "down")

ROOMS: Mapping[str, str] = {
    "master_bedroom": "in the master bedroom",
    "guest_bedroom": "in the guest bedroom",
    "living_room": "in the living room",
    "ding_room": "in the dining room",
    "study_room": "in the study room",
    "kitchen": "in the kitchen",
    "bathroom": "in the bathroom",
    "foyer": "in the foyer",
    "corridor": "in the corridor",
    "balcony": "on the balcony",
    "garage": "in the garage",
    "store_room": "in the store room",
}
"""Room key -> how an instruction says it."""


@dataclass(frozen=True)
class Trait:
    """An attribute that a device may have.

    ``share`` is how often it is there (1: always); ``spoken`` names it in instructions ('' for
    one that no instruction asks for); ``unit`` is what its numbers are said in.
    """

    name: str
    spoken: str = ""
    lowest: int | None = None
    highest: int | None = None
    options: tuple[str, ...] = ()
    unit: str = ""
    share: float = 0.5
    settable: bool = True

    @property
    def numeric(self) -> bool:
        return self.highest is not None


@dataclass(frozen=True)
class Kind:
    """A kind of device: spoken names, states, and argument-free operations with their wording.

    A wording has ``{device}`` and ``{room}``. ``rooms`` limits where it stands (empty: anywhere).
    """

    name: str
    spoken: tuple[str, ...]
    states: tuple[str, ...]
    switches: Mapping[str, tuple[str, ...]]
    traits: tuple[Trait, ...] = ()
    rooms: tuple[str, ...] = ()
    unasked: tuple[tuple[str, str], ...] = ()


_POWER = {
    "turn_on": (
        "Turn on the {device} {room}",
        "Switch on the {device} {room}",
        "Turn the {device} {room} on",
    ),
    "turn_off": (
        "Turn off the {device} {room}",
        "Switch off the {device} {room}",
        "Turn the {device} {room} off",
    ),
}
_COVER = {
    "open": (
        "Open the {device} {room}",
        "Fully open the {device} {room}",
        "Open the {device} {room} completely",
        "Please open the {device} {room}",
    ),
    "close": (
        "Close the {device} {room}",
        "Fully close the {device} {room}",
        "Close the {device} {room} completely",
        "Please close the {device} {room}",
    ),
}
_MEDIA = {
    "play": ("Play the {device} {room}", "Start playing the {device} {room}"),
    "pause": ("Pause the {device} {room}",),
    "stop": ("Stop the {device} {room}",),
}
_TRASH = {"pack": ("Pack the {device} {room}", "Pack up the {device} {room}")}
_ON = ("on", "off")


def _percent(name: str) -> Trait:
    return Trait(name, name, 0, 100, unit="%")


def _choice(name: str, options: tuple[str, ...], share: float = 0.5) -> Trait:
    return Trait(name, name.replace("_", " "), options=options, share=share)


def _temperature(lowest: int, highest: int, share: float = 0.5) -> Trait:
    return Trait("temperature", "temperature", lowest, highest, unit=" degrees", share=share)


_TANK = Trait("tank", "", 0, 100, share=0.25, settable=False)
_COLOR = Trait("color")
_DRYING = (_choice("mode", ("auto", "sleep")), _percent("intensity"), _TANK)

KINDS: tuple[Kind, ...] = (
    Kind("light", ("light", "lights"), _ON, _POWER, (_percent("brightness"), _COLOR)),
    Kind(
        "air_conditioner",
        ("air conditioner",),
        _ON,
        _POWER,
        (
            _temperature(16, 30, 1.0),
            _choice("mode", ("cool", "heat", "fan_only", "dry"), 1.0),
            _choice("fan_speed", _SPEEDS, 1.0),
            _choice("swing", _SWINGS, 1.0),
        ),
    ),
    Kind(
        "heating",
        ("heating", "heating system"),
        _ON,
        _POWER,
        (
            _choice("fan_speed", _SPEEDS),
            _choice("mode", ("heat", "fan_only")),
            _temperature(16, 30),
        ),
    ),
    Kind("fan", ("fan",), _ON, _POWER, (_choice("speed", _SPEEDS), _choice("swing", _SWINGS))),
    Kind("garage_door", ("garage door",), ("open", "closed"), _COVER, rooms=("garage",)),
    Kind("blinds", ("blinds",), ("open", "closed"), _COVER),
    Kind(
        "curtain",
        ("curtain", "curtains"),
        ("open", "closed"),
        _COVER,
        (Trait("degree", "degree", 0, 100, unit="%", share=1.0),),
    ),
    Kind(
        "air_purifiers",
        ("air purifiers", "air purifier"),
        _ON,
        _POWER,
        (_choice("mode", ("auto", "sleep")), _choice("fan_speed", _SPEEDS)),
    ),
    Kind(
        "water_heater",
        ("water heater",),
        _ON,
        _POWER,
        (_temperature(30, 100), _choice("mode", ("heating", "eco"))),
        rooms=("bathroom", "kitchen"),
    ),
    Kind("humidifier", ("humidifier",), _ON, _POWER, _DRYING),
    Kind("dehumidifiers", ("dehumidifier", "dehumidifiers"), _ON, _POWER, _DRYING),
    Kind(
        "aromatherapy",
        ("aromatherapy", "aromatherapy device"),
        _ON,
        _POWER,
        (Trait("interval", "interval", 10, 60, unit=" minutes"), _percent("intensity")),
    ),
    Kind("trash", ("trash",), ("empty", "not_full", "full"), _TRASH),
    Kind(
        "media_player",
        ("media player",),
        ("playing", "paused", "stopped"),
        _MEDIA,
        (Trait("volume", "volume", 0, 100, unit="%", share=1.0),),
        unasked=(("set_song", "song"), ("set_artist", "artist"), ("set_style", "style")),
    ),
)

ROBOT_MODES = ("auto", "strong", "sleep")
ROBOT_SHARE = 0.5
"""How often a home has the vacuum robot, the one device that stands in no room."""
