"""The recipes: each does what it says, and any order of them is a harness that runs."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe_cases import SEED, answer, by_instruction, parses, play, task, with_recipes

from engine.archive.drafts import Adoption
from engine.brief import Brief, Evidence
from engine.domains.smart_home import DOMAIN
from engine.editors import NOTES, REPORT, Edit, editor, mechanisms
from engine.editors.recipes import apply as recipe
from engine.editors.recipes import source
from engine.editors.recipes.base import choose_base
from engine.editors.recipes.catalogue import RECIPES, module_source
from engine.errors import ConfigError
from engine.view import HarnessSummary, MemoryView
from kernel.budget import added_lines
from kernel.host import WorkerPool
from kernel.scripted import call, malformed, text
from kernel.smoke import smoke

ALL = sorted(name for name, each in RECIPES.items() if recipe.applicable(SEED, each))
LIGHT_ON = "{ding_room.light.turn_on()}"
NO_EVIDENCE = Evidence("", ())


def summary(
    oid: str, scalar: float | None = None, base: str | None = None, **more
) -> HarnessSummary:
    scalars = {} if scalar is None else {"seed": scalar}
    return HarnessSummary(oid, 0, "k0", base, oid, scalar=scalar, scalars=scalars, **more)


def brief(*names: str, kind: str = "address", base: str | None = None) -> Brief:
    return Brief("k1", kind, "They fail so.", "a class", names, base)


# --- the seed ---------------------------------------------------------------------------------


def test_the_seed_answers_an_easy_instruction_in_one_turn():
    played = play(SEED, [answer(LIGHT_ON)])
    assert (played.answer, played.trajectory.turns) == (LIGHT_ON, 1)
    assert played.trajectory.violations == 0
    assert set(played.tools[0]) == {"inspect_home", "list_methods", "final_answer"}


def test_the_seeds_prompt_begins_with_what_all_tasks_share():
    first = play(SEED, [answer(LIGHT_ON)])
    other = play(SEED, [answer(LIGHT_ON)], "Set the fan in the kitchen to low.")
    *shared, last = first.requests[0]
    assert other.requests[0][:-1] == shared
    assert len(shared) == 1 + 2 * source.constant(SEED["harness.py"], "EXAMPLES_SHOWN")
    assert last["content"].index("ding_room: ") < last["content"].index("Instruction: Turn on")


def test_the_seed_looks_up_what_the_model_asks_for():
    played = play(SEED, [call("list_methods", {"room": "kitchen"}), answer("{error_input}")])
    assert "kitchen.fan.set_speed(" in played.shown()
    assert played.answer == "{error_input}"


def test_the_seed_is_plain():
    """No retry, no reading of other syntaxes, no check, no truncation."""
    assert play(SEED, [malformed(), answer(LIGHT_ON)]).trajectory.end == "no_answer"
    assert play(SEED, [text(LIGHT_ON), answer(LIGHT_ON)]).trajectory.end == "no_answer"
    assert play(SEED, [answer("{attic.lamp.glow()}")]).answer == "{attic.lamp.glow()}"
    assert len(SEED["harness.py"].splitlines()) <= 200
    assert mechanisms(SEED) == ()


def test_the_bundled_examples_are_in_the_answer_format():
    examples = json.loads(SEED["examples.json"])
    assert len(examples) >= 28
    for example in examples:
        assert example["commands"].startswith("{") and example["commands"].endswith("}")
        assert not any(len(key) > 12 for key in example)


# --- each mechanism does what it says ---------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        '{"name": "final_answer", "arguments": {"commands": "LIGHT_ON"}}',
        '```json\n{"tool": "final_answer", "parameters": {"commands": "LIGHT_ON"}}\n```',
        '{"commands": "LIGHT_ON"}',
        'final_answer(commands="LIGHT_ON")',
        "Sure: LIGHT_ON",
        "ding_room.light.turn_on()",
        '<tool_call>{"name": "final_answer", "arguments": {"commands": "LIGHT_ON"}}',
        "<tool_call>\n<function=final_answer>\n<parameter=commands>\nLIGHT_ON\n</parameter>",
        "<function=final_answer>\n<parameter=commands>\nLIGHT_ON",
    ],
)
def test_accept_syntaxes(said):
    played = play(with_recipes("accept_syntaxes"), [malformed(said.replace("LIGHT_ON", LIGHT_ON))])
    assert played.answer == LIGHT_ON
    assert played.trajectory.violations == 1  # read, but still a violation


def test_accept_syntaxes_leaves_plain_words_alone():
    played = play(with_recipes("accept_syntaxes"), [text("I can't do [that] {here}.")])
    assert played.trajectory.end == "no_answer"


def test_retry_malformed_sends_the_parsers_message():
    played = play(with_recipes("retry_malformed"), [malformed(), answer(LIGHT_ON)])
    assert played.answer == LIGHT_ON
    assert "no valid tool call: the </tool_call> is missing" in played.shown()
    never = play(with_recipes("retry_malformed", RETRIES=1), [malformed()])
    assert (never.trajectory.end, never.trajectory.turns) == ("no_answer", 2)


def test_truncate_observations():
    listing = call("list_methods", {})
    whole = play(SEED, [listing, answer(LIGHT_ON)]).shown()
    cut = play(with_recipes("truncate_observations", LIMIT=120), [listing, answer(LIGHT_ON)])
    assert len(cut.shown()) < len(whole) and "characters left out" in cut.shown()
    assert cut.shown().splitlines()[0] == whole.splitlines()[0]
    assert set(cut.shown().splitlines()) - set(whole.splitlines()) == {
        line for line in cut.shown().splitlines() if line.startswith("[...")
    }


def test_room_methods_lists_the_named_room_only():
    shown = play(with_recipes("room_methods"), [answer(LIGHT_ON)]).shown()
    assert "ding_room.light.turn_on()" in shown and "kitchen.fan" not in shown
    robot = play(with_recipes("room_methods"), [answer(LIGHT_ON)], "Set the vacuum robot to auto.")
    assert "vacuum_robot.set_mode(" in robot.shown()
    narrow = with_recipes("room_methods", DEVICES_ONLY=True)
    assert "curtain.set_degree" not in play(narrow, [answer(LIGHT_ON)]).shown()


def test_focus_index():
    shown = play(with_recipes("focus_index"), [answer(LIGHT_ON)]).shown()
    assert "ding_room: " in shown and "kitchen: " not in shown
    whole = play(with_recipes("focus_index"), [answer(LIGHT_ON)], "Make it bright.").shown()
    assert "kitchen: " in whole


def test_room_state():
    shown = play(with_recipes("room_state"), [answer(LIGHT_ON)]).shown()
    assert "ding_room.light: state on, brightness 57" in shown and "curtain: state" not in shown


@pytest.mark.parametrize(
    ("instruction", "line"),
    [
        (
            "Increase the brightness of the light in the dining room by 20%.",
            "brightness is 57 now, will be 77",
        ),
        (
            "Lower the light brightness in the dining room by 90 percent.",
            "brightness is 57 now, will be 0",
        ),
        ("Set the brightness of the light in the dining room to the maximum.", "will be 100"),
        ("Turn the fan in the kitchen up by 1 level.", "speed is low now, will be medium"),
    ],
)
def test_relative_changes(instruction, line):
    assert line in play(with_recipes("relative_changes"), [answer("{}")], instruction).shown()


def test_relative_changes_says_nothing_where_a_value_is_named():
    instruction = "Set the brightness of the light in the dining room to 40."
    assert (
        "now, will be"
        not in play(with_recipes("relative_changes"), [answer("{}")], instruction).shown()
    )


def test_choose_examples_shows_like_ones():
    instruction = "Set the volume of the media player in the garage to 20."
    shown = play(with_recipes("choose_examples"), [answer("{}")], instruction).requests[0]
    assert "media player" in shown[1]["content"]
    last = play(with_recipes("choose_examples", "arrange_examples"), [answer("{}")], instruction)
    assert "media player" in last.requests[0][-3]["content"]
    assert {m["content"] for m in last.requests[0]} == {m["content"] for m in shown}


def test_example_count_and_arrange():
    count = len(play(with_recipes("example_count"), [answer("{}")]).requests[0])
    assert count == 1 + 2 * 6 + 1
    short = play(with_recipes("arrange_examples", ORDER="short_first"), [answer("{}")]).requests[0]
    lengths = [len(message["content"]) for message in short[1:-1:2]]
    assert lengths == sorted(lengths)


def test_settings_change_the_prompt():
    only = play(with_recipes("answer_only"), [answer("{}")])
    assert only.tools[0] == ["final_answer"]
    worded = play(with_recipes("system_wording"), [answer("{}")])
    assert worded.requests[0][0] != only.requests[0][0]
    assert "(Home:" not in play(with_recipes("context_order"), [answer("{}")]).shown()


def test_split_request_answers_parts_together():
    instruction = (
        "Turn on the light in the dining room, set the fan in the kitchen to low, and jump."
    )
    model = by_instruction(
        {
            "Turn on the light in the dining room.": LIGHT_ON,
            "Set the fan in the kitchen to low, and jump.": "{kitchen.fan.set_speed(low)}",
        }
    )
    played = play(with_recipes("split_request"), [model], instruction)
    assert played.trajectory.turns == 2 and played.trajectory.violations == 0
    assert played.answer == f"{LIGHT_ON},{{kitchen.fan.set_speed(low)}}"
    gold = "'''ding_room.light.turn_on(),kitchen.fan.set_speed(low),'''"
    assert DOMAIN.verify(task(instruction, gold), played.answer).accepted
    assert play(with_recipes("split_request"), [answer(LIGHT_ON)]).trajectory.turns == 1


@pytest.mark.parametrize(
    ("said", "submitted"),
    [
        ("ding_room.light.turn_on", LIGHT_ON),
        ("{Ding Room.light.set_brightness(20%)}", "{ding_room.light.set_brightness(20)}"),
        ('{kitchen.fan.set_speed("low")}', "{kitchen.fan.set_speed(low)}"),
        (
            "{kitchen.light.set_color(1, 2, 3), Error input}",
            "{kitchen.light.set_color(1,2,3),error_input}",
        ),
        ("{vacuum_robot.set_mode(mode=auto)}", "{vacuum_robot.set_mode(auto)}"),
    ],
)
def test_normalise_commands(said, submitted):
    assert play(with_recipes("normalise_commands"), [answer(said)]).answer == submitted


def test_nearest_names_mends_a_slip_only():
    files = with_recipes("nearest_names")
    assert play(files, [answer("{dining_room.light.turnon()}")]).answer == LIGHT_ON
    far = "{kitchen.oven.bake(3)}"
    assert play(files, [answer(far)]).answer == far


def test_verify_commands_replaces_what_the_home_cannot_do():
    files = with_recipes("verify_commands")
    said = "{ding_room.light.turn_on(),ding_room.light.turn_off(),attic.light.turn_on()}"
    assert (
        play(files, [answer(said)]).answer == "{ding_room.light.turn_on(),error_input,error_input}"
    )
    said = "{kitchen.fan.set_speed(warp)}"
    assert play(files, [answer(said)]).answer == said
    strict = with_recipes("verify_commands", CHECK_OPTIONS=True)
    assert play(strict, [answer(said)]).answer == "{error_input}"
    assert play(strict, [answer("{kitchen.light.set_color(1,2,3)}")]).answer != "{error_input}"


def test_ask_again_once_in_simpler_form():
    wrong = answer("{ding_room.light.brighten(20)}")
    played = play(with_recipes("ask_again"), [wrong, answer(LIGHT_ON)])
    assert played.answer == LIGHT_ON
    assert "ding_room.light.brighten(20) does not exist" in played.shown()
    assert "ding_room.light.set_brightness(" in played.shown()
    stubborn = play(with_recipes("ask_again", "verify_commands"), [wrong])
    assert (stubborn.answer, stubborn.trajectory.turns) == ("{error_input}", 2)


def test_finish_in_time_offers_only_the_answer_at_last():
    files = with_recipes("finish_in_time")
    files["harness.py"] = source.set_constant(files["harness.py"], "SETTINGS", {"max_turns": 4})

    def dawdle(messages, tools):
        names = [tool["function"]["name"] for tool in tools]
        return answer(LIGHT_ON) if names == ["final_answer"] else call("inspect_home", {})

    played = play(files, [dawdle])
    assert (played.answer, played.trajectory.turns) == (LIGHT_ON, 3)
    files["harness.py"] = source.register(files["harness.py"], [])
    assert play(files, [dawdle]).trajectory.end == "no_answer"


def test_compact_history_shortens_old_observations():
    look = call("list_methods", {})
    steps = [look, look, look, answer(LIGHT_ON)]
    whole = play(SEED, steps).requests[-1]
    compact = play(with_recipes("compact_history", LONG=400, KEEP=1), steps).requests[-1]
    seen = [str(message["content"]) for message in compact if message["role"] == "tool"]
    assert [each.endswith("[older result, shortened]") for each in seen] == [True, True, False]
    assert len(str(compact)) < len(str(whole))


# --- composition ------------------------------------------------------------------------------


def test_the_catalogue_is_broad_and_documented():
    assert len(RECIPES) >= 14
    for each in RECIPES.values():
        assert each.summary and each.effect and each.risk
        if not each.setting:
            assert each.source().startswith(b'"""')


async def _smoke(files) -> list[str]:
    sample = DOMAIN.practice(task(), "Turn on the light in the dining room.")
    async with WorkerPool() as pool:
        return await smoke(
            pool,
            files,
            rules=DOMAIN.world(sample).rules,
            world=lambda: DOMAIN.world(sample),
            entry_points=DOMAIN.entry_points,
        )


@pytest.mark.parametrize("name", ALL)
def test_each_recipe_alone_runs(name):
    files = with_recipes(name)
    assert asyncio.run(_smoke(files)) == []
    assert mechanisms(files) == (name,)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_composes_to_the_same_harness(seed):
    rng = random.Random(seed)
    names = rng.sample(ALL, len(ALL) if seed == 0 else rng.randint(2, len(ALL)))
    files = with_recipes(*names)
    assert asyncio.run(_smoke(files)) == []
    assert files == with_recipes(*sorted(names))
    assert set(mechanisms(files)) == set(names)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(ALL), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_a_second_application_varies_or_does_nothing(names, rng):
    files = dict(SEED)
    for name in names:
        there = name in mechanisms(files)
        applied = recipe.apply(files, name, rng)
        if applied is None:
            assert there
            assert len(RECIPES[name].choices) == 0 or all(
                len(values) == 1 for values in RECIPES[name].choices.values()
            )
            continue
        assert applied.files != files and parses(applied.files)
        assert applied.change.action == ("varied" if there else "added")
        if there:
            assert mechanisms(applied.files) == mechanisms(files)
            assert added_lines(files, applied.files) <= 8
        files = applied.files


def test_removing_restores_the_base():
    for name in ALL:
        files = recipe.remove(with_recipes(name), SEED, name)
        assert mechanisms(files) == ()
        assert files["harness.py"] == SEED["harness.py"]


def test_a_harness_off_the_convention_is_left_alone():
    plain = {"harness.py": b"async def run(instruction, model, world): ...\n"}
    for name in ALL:
        assert recipe.apply(plain, name, random.Random(0)) is None
    assert mechanisms(plain) == () and mechanisms({}) == ()


def test_unknown_mechanisms_keep_their_place():
    files = with_recipes("verify_commands", "room_methods")
    files["mechanisms/own.py"] = b'"""Own."""\n'
    files["harness.py"] = source.register(
        files["harness.py"], ["own", "room_methods", "verify_commands"]
    )
    applied = recipe.apply(files, "normalise_commands", random.Random(0))
    assert applied is not None
    assert source.registered(applied.files) == (
        "own",
        "room_methods",
        "normalise_commands",
        "verify_commands",
    )


UNREADABLE = {
    "a key that no dict takes": b"MECHANISMS = {[]: 1}\n",
    "a sum without end": b"MECHANISMS = " + b"1+" * 2_000 + b"1\n",
    "a sum too long to parse": b"MECHANISMS = " + b"1+" * 20_000 + b"1\n",
    "signs without end": b"MECHANISMS = " + b"-" * 20_000 + b"1\n",
    "brackets without end": b"MECHANISMS = " + b"[" * 20_000 + b"\n",
    "a number too long to say": b"MECHANISMS = [0x" + b"f" * 9_000 + b"]\n",
    "no list": b"MECHANISMS = 'truncate'\n",
    "no text": b"MECHANISMS = ['a\x00']\n",
    "not Python": b"MECHANISMS = [\n",
    "too large": b"MECHANISMS = ['a']\n" + b"#" * source.MAX_SOURCE,
    "two lists": b"MECHANISMS = ['a']\nMECHANISMS = ['b']\n",
}


@pytest.mark.parametrize("code", UNREADABLE.values(), ids=UNREADABLE)
def test_no_archived_harness_stops_the_view_or_the_editor(code):
    files = {"harness.py": code}
    assert mechanisms(files) == () and source.registered(files) == ()
    for name in ALL:
        assert recipe.values(files, name) == {}
        assert recipe.apply(files, name, random.Random(0)) is None


@pytest.mark.parametrize("name", ["a sum too long to parse", "signs without end", "no text"])
def test_a_module_that_cannot_be_read_is_not_adopted(name):
    donor = {"harness.py": b"MECHANISMS = ['own']\n", "mechanisms/own.py": UNREADABLE[name]}
    assert mechanisms(donor) == ("own",)
    assert recipe.adopt(SEED, donor, "own") is None


def test_a_mechanism_is_not_adopted_where_no_list_names_it():
    donor = {"harness.py": b"MECHANISMS = ['own']\n", "mechanisms/own.py": b"x = 1\n"}
    assert recipe.adopt({"harness.py": b"x = 1\n"}, donor, "own") is None
    taken = recipe.adopt({"harness.py": b"MECHANISMS = []\n"}, donor, "own")
    assert taken is not None and mechanisms(taken.files) == ("own",)


def test_constants_keep_their_comments():
    code = b'A = 1  # one\nB: list[str] = []  # none\nC = """\\\nx\n"""\n'
    assert source.set_constant(code, "A", 2).splitlines()[0] == b"A = 2  # one"
    changed = source.set_constant(code, "B", ["x"] * 30)
    assert source.constant(changed, "B") == ["x"] * 30 and b"# none" in changed
    assert source.constant(source.set_constant(code, "C", "y\nz"), "C") == "y\nz"
    with pytest.raises(ValueError, match="no single top-level assignment of D"):
        source.constant(code, "D")


# --- the editor -------------------------------------------------------------------------------


def edited(view: MemoryView, wanted: Brief, budget: int | None = 500, seed: int = 0) -> Edit:
    return editor("recipes").edit(wanted, NO_EVIDENCE, view, random.Random(seed), budget)


def test_the_editor_applies_the_brief_and_reports():
    view = MemoryView([summary("seed", 0.1)], {"seed": SEED})
    edit = edited(view, brief("room_methods", "verify_commands"))
    assert edit.base == "seed" and edit.mechanisms == ("room_methods", "verify_commands")
    assert mechanisms(edit.files) == ("room_methods", "verify_commands")
    report = edit.files[REPORT].decode()
    for part in ("Hypothesis", "Base", "Changed files", "Expected effect", "Validation", "Risks"):
        assert f"## {part}" in report
    assert "mechanisms/verify_commands.py" in report
    assert b"They fail so." in edit.files[NOTES]
    again = MemoryView(
        [summary("seed", 0.1), summary("next", 0.2, "seed")], {"seed": SEED, "next": edit.files}
    )
    notes = edited(again, brief("split_request", base="next"), seed=1).files[NOTES]
    assert notes.startswith(edit.files[NOTES][:60]) or b"split_request" in notes


def test_the_line_budget_bounds_an_edit():
    view = MemoryView([summary("seed", 0.1)], {"seed": SEED})
    for budget in (0, 60, 120, 500):
        edit = edited(view, brief(*ALL), budget)
        assert added_lines(SEED, edit.files) <= budget
    assert len(edit.mechanisms) > 6


def test_designs_that_proved_are_adopted():
    donor = with_recipes("retry_malformed", RETRIES=4)
    view = MemoryView(
        [
            summary("seed", 0.3),
            summary("donor", 0.2, "low", mechanisms=("retry_malformed",)),
            summary("low", 0.1),
            summary("bad", 0.9, mechanisms=("retry_malformed",), rejected=True),
        ],
        {"seed": SEED, "donor": donor, "low": SEED, "bad": with_recipes("retry_malformed")},
    )
    wanted = brief("retry_malformed", base="seed")
    edit = next(e for s in range(20) if (e := edited(view, wanted, seed=s)).base == "seed")
    assert edit.adopts == (Adoption("donor", "retry_malformed"),)
    assert edit.files["mechanisms/retry_malformed.py"] == donor["mechanisms/retry_malformed.py"]
    assert edit.subject == "Adopt retry_malformed"


def test_an_adopted_mechanism_brings_what_it_imports():
    donor = with_recipes("verify_commands")
    donor["mechanisms/rooms.py"] += b"# the donor's own\n"
    adopted = recipe.adopt(SEED, donor, "verify_commands")
    assert adopted is not None
    assert adopted.files["mechanisms/rooms.py"] == donor["mechanisms/rooms.py"]
    assert adopted.files["mechanisms/commands.py"] == module_source("commands")
    assert recipe.adopt(adopted.files, donor, "verify_commands") is None


def test_bases_follow_outcomes_but_not_only_the_best():
    entries = [
        summary("seed", 0.10),
        summary("best", 0.30, "seed"),
        summary("near", 0.26, "seed"),
        summary("gone", 0.90, "seed", rejected=True),
        summary("unmeasured", None, "seed"),
    ]
    rng = random.Random(0)
    drawn = [choose_base(brief("x", base="best"), entries, rng) for _ in range(300)]
    assert set(drawn) <= {"seed", "best", "near"}
    assert drawn.count("best") > drawn.count("near") > drawn.count("seed")
    assert drawn.count("near") > 20
    with pytest.raises(ValueError, match="no harness that can be a base"):
        choose_base(brief("x"), entries[3:4], rng)


def test_repair_mends_by_the_reason():
    view = MemoryView([summary("seed", 0.1)], {"seed": SEED})
    wanted, tool = brief("retry_malformed", "split_request"), editor("recipes")
    edit = edited(view, wanted)
    rng = random.Random(0)
    more = tool.repair(edit, ["duplicate: of abc"], wanted, view, rng, 500)
    assert set(more.mechanisms) > set(edit.mechanisms)
    less = tool.repair(edit, ["smoke: an answer: harness_error"], wanted, view, rng, 500)
    assert less.mechanisms == ("retry_malformed",)
    assert b"Repaired after: smoke" in less.files[REPORT]
    other = tool.repair(less, ["budget: 40 added lines, 30 are allowed"], wanted, view, rng, 30)
    assert added_lines(SEED, other.files) <= 30 and other.mechanisms != less.mechanisms


def test_the_table_of_editors():
    with pytest.raises(ConfigError, match=r"editors\.kind: nothing is called 'recipe'"):
        editor("recipe")
