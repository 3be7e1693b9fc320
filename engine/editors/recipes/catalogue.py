"""The recipes: general transformations of a harness, each with what it needs and may vary.

A *module* recipe adds ``mechanisms/NAME.py`` and lists it in harness.py; a *setting* recipe
changes a constant of harness.py. ``rank`` orders modules in the list, so that mechanisms compose:
what mends a command runs before what checks it. ``choices`` are the constants that a second
application may vary; their first value is the one a fresh application takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """One transformation. ``setting`` names the constant of harness.py that it edits, '' for a
    recipe that adds a module."""

    name: str
    summary: str
    effect: str
    risk: str
    rank: int = 0
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    setting: str = ""
    needs: tuple[str, ...] = ()
    """Words that must stand in harness.py: tools or seams without which it makes no sense."""

    def source(self) -> bytes:
        """The module's text as it stands in the catalogue."""
        return module_source(self.name)


def module_source(name: str) -> bytes:
    """A module of the catalogue, also one that only supports others (``rooms``, ``commands``)."""
    folder = resources.files("engine.editors.recipes") / "modules"
    return (folder / f"{name}.py").read_bytes()


RULES = """\
You control the devices of a home. Answer with final_answer, all commands in one pair of braces.
A command is room.device.method(value), with the names of the home's own rooms and devices.
Write one command for each thing that is asked, and error_input for each that the home can't do."""
SHORT = """\
Turn the instruction into commands for this home: {room.device.method(value)}.
What the home can't do is error_input."""

_ALL = (
    Recipe(
        "split_request",
        "handle a compound request one part at a time and submit the answers together",
        "more compound requests with every part answered",
        "more turns; a part may lose what another part said",
        rank=5,
        choices={"MOST": (10, 6, 4)},
        needs=("split",),
    ),
    Recipe(
        "choose_examples",
        "rank the bundled examples by the words they share with the instruction",
        "the right method and argument form is in sight more often",
        "examples differ by task, so less of the prompt is reused by the server",
        rank=10,
        choices={"PAIRS": (False, True)},
        needs=("rank",),
    ),
    Recipe(
        "arrange_examples",
        "order the shown examples, the most useful one last",
        "the example nearest to the task weighs most",
        "a copied example where the task differs from it",
        rank=12,
        choices={"ORDER": ("best_last", "short_first", "long_first")},
        needs=("arrange",),
    ),
    Recipe(
        "focus_index",
        "show only the devices of the rooms that the instruction names",
        "less distraction and a shorter prompt",
        "a room that is named in an unusual way is shown with the whole home instead",
        rank=20,
        needs=("context", "home"),
    ),
    Recipe(
        "room_methods",
        "list the methods of the named room in the task message",
        "commands use methods that exist",
        "a longer prompt; copied methods where nothing fits",
        rank=22,
        choices={"LINES": (24, 12, 40), "DEVICES_ONLY": (False, True)},
        needs=("list_methods", "context"),
    ),
    Recipe(
        "room_state",
        "show the state of the devices that the instruction names",
        "relative changes can start from the present value",
        "a longer prompt; state copied into arguments",
        rank=24,
        choices={"TITLE": ("State:", "Present state:")},
        needs=("inspect_home", "context"),
    ),
    Recipe(
        "relative_changes",
        "say what a relative change or an extreme makes of the present value",
        "right values for 'by N percent', 'by N degrees', 'to the maximum'",
        "none for requests that name a value",
        rank=26,
        needs=("inspect_home", "context"),
    ),
    Recipe(
        "survey_log",
        "inspect the whole log in parts and show a digest of every step in the task message",
        "no decisive step is missed because nobody looked at it",
        "a longer prompt; in a long log little is shown of each step",
        rank=28,
        choices={"SHOWN": (2400, 1200, 6000), "PART": (8, 4, 16)},
        needs=("step_ids", "prepare"),
    ),
    Recipe(
        "accept_syntaxes",
        "read tool calls that the model wrote in other syntaxes",
        "fewer rollouts that end without an answer",
        "text that only mentions a command may be taken for an answer",
        rank=30,
        needs=("reply",),
    ),
    Recipe(
        "retry_malformed",
        "send the parser's message back after a malformed call, and try again",
        "fewer rollouts that end without an answer",
        "more turns on rollouts that were lost anyway",
        rank=32,
        choices={"RETRIES": (2, 1, 4)},
        needs=("recover",),
    ),
    Recipe(
        "normalise_commands",
        "bring commands into canonical form before they are submitted",
        "no answer lost to a quote, a unit or a missing parenthesis",
        "none seen",
        rank=40,
        needs=("commands",),
    ),
    Recipe(
        "nearest_names",
        "mend names that are a slip away from a method of the home",
        "right commands where only a name was misspelt",
        "an infeasible request becomes a near command",
        rank=42,
        choices={"CUTOFF": (0.8, 0.9, 0.7)},
        needs=("list_methods", "commands"),
    ),
    Recipe(
        "ask_again",
        "after an answer that names an unknown method, ask again with only the methods that fit",
        "wrong methods replaced by right ones",
        "one more turn on such rollouts",
        rank=44,
        choices={"ATTEMPTS": (1, 2), "LINES": (16, 8)},
        needs=("list_methods", "commands"),
    ),
    Recipe(
        "verify_commands",
        "check every command against the home's method list before answering",
        "infeasible parts are answered with error_input",
        "a feasible request whose method was misnamed becomes error_input",
        rank=46,
        choices={"CHECK_OPTIONS": (False, True)},
        needs=("list_methods", "commands"),
    ),
    Recipe(
        "read_unseen",
        "before an answer is submitted, show the steps up to it that were never inspected",
        "an earlier cause is seen before its late symptom is named",
        "more turns; more text between the model and what it had found",
        rank=45,
        choices={"ROUNDS": (1, 2, 4), "PART": (6, 3, 12)},
        needs=("step_ids", "call"),
    ),
    Recipe(
        "check_speaker",
        "send an answer back whose agent doesn't speak at its step; then the step decides",
        "agent and step agree in every answer",
        "a right agent with a wrong step is lost where the step decides",
        rank=46,
        choices={"RETRIES": (1, 0, 2)},
        needs=("step_ids", "call"),
    ),
    Recipe(
        "look_closer",
        "narrow down: show the named step whole, between its neighbours, before it is submitted",
        "steps that were read cut, or lost from sight, are judged on their full text",
        "one more turn on every rollout",
        rank=47,
        choices={"AROUND": (1, 0, 2), "SHOWN": (2400, 1200, 4800)},
        needs=("step_ids", "call"),
    ),
    Recipe(
        "try_sql",
        "run the SQL of an answer first and send its error back",
        "fewer answers that don't run",
        "one more turn on such rollouts",
        rank=46,
        choices={"TRIES": (1, 2, 3)},
        needs=("test_sql", "call"),
    ),
    Recipe(
        "check_grants",
        "hold the answer's SQL against the policy, column by column, before it is submitted",
        "no answer reads what the role may not",
        "SQL that reads more than the question needs becomes a refusal",
        rank=48,
        choices={"RETRIES": (0, 1, 2)},
        needs=("access_granted", "call"),
    ),
    Recipe(
        "truncate_observations",
        "cut long observations to whole lines within a limit",
        "no rollout drowned by a listing of the whole home",
        "the needed line may be cut",
        rank=50,
        choices={"LIMIT": (1200, 600, 2400)},
        needs=("observation",),
    ),
    Recipe(
        "compact_history",
        "shorten older observations once the history is long",
        "long conversations stay within the context",
        "the model asks again for what was shortened",
        rank=52,
        choices={"KEEP": (2, 1, 3), "LONG": (6000, 3000)},
        needs=("request",),
    ),
    Recipe(
        "finish_in_time",
        "ask for the answer when few turns are left",
        "fewer rollouts that run out of turns",
        "an answer before everything was looked up",
        rank=54,
        choices={"LEFT": (2, 4, 8)},
        needs=("request", "max_turns"),
    ),
    Recipe(
        "answer_only",
        "offer the answer tool alone, so that the context must hold what is needed",
        "one turn a rollout, and a shorter prompt",
        "nothing can be looked up by the model",
        setting="OFFERED_TOOLS",
        choices={"OFFERED_TOOLS": (["final_answer"],)},
    ),
    Recipe(
        "example_count",
        "show another number of bundled examples",
        "a better balance of guidance and prompt length",
        "a longer prompt",
        setting="EXAMPLES_SHOWN",
        choices={"EXAMPLES_SHOWN": (6, 8, 3, 5)},
    ),
    Recipe(
        "context_order",
        "change the order of the task message's sections",
        "what stands last, next to the answer, weighs most",
        "the form differs from the examples'",
        setting="CONTEXT_ORDER",
        choices={
            "CONTEXT_ORDER": (["notes", "instruction"], ["instruction", "home", "notes"]),
        },
        needs=("home",),
    ),
    Recipe(
        "system_wording",
        "reword the standing instructions",
        "a clearer statement of the answer's form",
        "another wording fits another checkpoint",
        setting="SYSTEM",
        choices={"SYSTEM": (RULES, SHORT)},
        needs=("inspect_home",),
    ),
)

RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
