"""A timetable under constraints, written to a file; kept out of evolution.

A timetable is drawn first and the constraints are read off it, so that there is one that fits. Any
that fits is right.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.domains.terminal.families.words import NAMES, THINGS, sentence
from engine.domains.terminal.problem import Family, Problem

GRADER = """
import csv, json
from pathlib import Path

facts = json.loads(Path("/grader/facts.json").read_text())
rooms, sessions = facts["rooms"], facts["sessions"]
placed = {}
try:
    with Path("/app/timetable.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["session"] in placed:
                print(row["session"], "stands there twice")
                placed.clear()
                break
            placed[row["session"]] = (row["room"], int(row["start"]))
except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError) as error:
    print("timetable.csv can't be read:", repr(error))
    placed = {}


def faults(name):
    session = sessions[name]
    if name not in placed:
        return ["isn't there"]
    room, start = placed[name]
    end, found = start + session["hours"], []
    if room not in rooms or rooms[room] < session["people"]:
        found.append("has no room that is large enough")
    if start < 0 or end > facts["hours"]:
        found.append("is outside the day")
    if any(not (end <= hour or hour < start) for hour in session["not_at"]):
        found.append("is at an hour that was ruled out")
    for before in session["after"]:
        if before not in placed or placed[before][1] + sessions[before]["hours"] > start:
            found.append("is before the end of " + before)
    for other, (there, begin) in placed.items():
        if other == name or other not in sessions:
            continue
        apart = begin + sessions[other]["hours"] <= start or end <= begin
        if not apart and there == room:
            found.append("shares its room with " + other)
        if not apart and sessions[other]["speaker"] == session["speaker"]:
            found.append("has the same speaker at the same time as " + other)
    return found


right = 0
for name in sessions:
    found = faults(name)
    right += not found
    for fault in found[:3]:
        print(name, fault)
share = right / len(sessions)
print(json.dumps({"score": 1.0 if share == 1 else share ** 2 * 0.8}))
"""

INSTRUCTION = """\
Plan a day of {hours} hours (numbered from 0) in /app. rooms.csv says how many people a room \
holds, sessions.csv how long a session takes in hours, how many people come and who speaks, and \
requests.txt what is asked for. Write timetable.csv with the header session,room,start: one row \
for each session, start being the hour in which it begins. A session stays in one room without a \
break, the room holds its people, it ends by the end of the day, no room and no speaker has two \
sessions at once, and every request that wasn't taken back holds."""


@dataclass
class Session:
    speaker: str
    hours: int
    people: int
    start: int
    room: str
    after: list[str] = field(default_factory=list)
    not_at: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The first hour when it is over."""
        return self.start + self.hours


def _rooms(rng: random.Random, difficulty: int) -> dict[str, int]:
    """Name -> seats, no two alike."""
    names = rng.sample(THINGS, 1 + difficulty)
    return {name: 10 * (2 + 3 * n) + rng.randrange(9) for n, name in enumerate(names)}


def _sessions(
    rng: random.Random, rooms: dict[str, int], hours: int, difficulty: int
) -> dict[str, Session]:
    """A timetable that fits, each room filled by a share that grows with the difficulty."""
    placed: dict[str, Session] = {}
    for room, seats in rooms.items():
        hour = 0
        while hour < hours:
            length = min(rng.randrange(1, 4), hours - hour)
            busy = {s.speaker for s in placed.values() if s.start < hour + length and hour < s.end}
            free = [name for name in NAMES[: 3 + 2 * difficulty] if name not in busy]
            if free and rng.random() < 0.55 + 0.08 * difficulty:
                people = rng.randrange(seats - 12, seats + 1)
                name = f"S{rng.choice([n for n in range(10, 100) if f'S{n}' not in placed])}"
                placed[name] = Session(rng.choice(free), length, people, hour, room)
            hour += length
    return placed


def _requests(rng: random.Random, sessions: dict[str, Session], hours: int, size: int) -> list[str]:
    """What is asked for, and some of it taken back again; into the sessions goes what holds."""
    lines = []
    for _ in range(2 * size):
        first, second = rng.sample(sorted(sessions), 2)
        if sessions[first].end <= sessions[second].start:
            sessions[second].after.append(first)
            lines.append(f"{second} must not begin before {first} is over.")
        name = rng.choice(sorted(sessions))
        hour = rng.randrange(hours)
        if not sessions[name].start <= hour < sessions[name].end:
            sessions[name].not_at.append(hour)
            lines.append(f"{name} can't take place in hour {hour}.")
    for _ in range(size - 1):
        name = rng.choice(sorted(sessions))
        hour = rng.randrange(sessions[name].start, sessions[name].end)
        at = rng.randrange(len(lines) + 1)
        lines.insert(at, f"{name} can't take place in hour {hour}.")
        back = rng.randrange(at + 1, len(lines) + 1)
        lines.insert(back, f"Taken back: {name} may well take place in hour {hour}.")
    return [f"{line} {sentence(rng)}" if rng.random() < 0.3 else line for line in lines]


def make(rng: random.Random, difficulty: int) -> Problem:
    hours = 6 + difficulty
    rooms = _rooms(rng, difficulty)
    sessions = _sessions(rng, rooms, hours, difficulty)
    while len(sessions) < 4:
        sessions = _sessions(rng, rooms, hours, difficulty)
    requests = _requests(rng, sessions, hours, difficulty)
    shown = sorted(sessions)
    table = [f"{n},{sessions[n].hours},{sessions[n].people},{sessions[n].speaker}" for n in shown]
    files = {
        "rooms.csv": ["room,seats", *(f"{name},{rooms[name]}" for name in sorted(rooms))],
        "sessions.csv": ["session,hours,people,speaker", *table],
        "requests.txt": requests,
    }
    fits = "\n".join(f"{name},{s.room},{s.start}" for name, s in sorted(sessions.items()))
    facts: dict[str, Any] = {name: asdict(session) for name, session in sessions.items()}
    for session in facts.values():
        del session["room"], session["start"]
    return Problem(
        instruction=INSTRUCTION.format(hours=hours),
        files={name: ("\n".join(lines) + "\n").encode() for name, lines in files.items()},
        grader=GRADER,
        facts={"hours": hours, "rooms": rooms, "sessions": facts},
        solution=f"cat > timetable.csv <<'CSV'\nsession,room,start\n{fits}\nCSV",
    )


FAMILY = Family("schedule", make, ood=True)
