"""Mechanisms are recognised in the host's record, whatever the harness calls them."""

from __future__ import annotations

from rollout_script import SYSTEM, Script, says, tool, user

from engine.self_evolution.mechanisms import triggered
from kernel.contract import Message

TASK = user("Find the year in the log and write it to year.txt.")
LONG = "\n".join(f"line {n} of the log" for n in range(900))
CLIPPED = (
    f"{LONG[:300]}\n[... {len(LONG) - 600} characters left out; print less ...]\n{LONG[-300:]}"
)


def worked(script: Script, steps: int, output: str = "short") -> list[Message]:
    """A history of ``steps`` commands, each of which the model asked for."""
    history = [SYSTEM, TASK]
    for number in range(steps):
        reply = says(f"step {number}", f"cat {number}")
        script.ask(history, reply)
        script.ran(f"cat {number}", output)
        history = [*history, reply, tool(output)]
    return history


def test_a_plain_loop_triggers_nothing() -> None:
    script = Script()
    script.ask(worked(script, 4, LONG), says("done"))
    assert triggered(script.trajectory()) == frozenset()


def test_a_clipped_output_is_truncation() -> None:
    script = Script()
    history = worked(script, 1, LONG)
    script.ask([*history[:-1], tool(CLIPPED)], says("done"))
    assert triggered(script.trajectory()) == {"truncation"}


def test_an_old_output_that_is_clipped_later_is_truncation() -> None:
    script = Script()
    history = worked(script, 3, LONG)
    script.ask([*history[:3], tool(LONG[:200] + "[cut]"), *history[4:]], says("done"))
    assert triggered(script.trajectory()) == {"truncation"}


def test_an_output_that_was_only_wrapped_is_whole() -> None:
    script = Script()
    history = worked(script, 1, LONG)
    shown = "[stdout]\n" + LONG.replace("\n", "\n  ") + "\n[exit 0]"
    script.ask([*history[:-1], tool(shown)], says("done"))
    assert triggered(script.trajectory()) == frozenset()


def test_an_output_that_the_record_alone_shortens_is_whole() -> None:
    """As the record has a command that printed 16 MB: output and message without their middles."""

    def shortened(end: str, characters: int) -> str:
        return f"{LONG}\n[the record leaves out {characters} characters]\n{LONG[-300:]}{end}"

    output = shortened("", 16_000_000)
    for characters, found in ((16_000_000, frozenset()), (1_000_000, {"truncation"})):
        script = Script()
        history = worked(script, 1, output)
        shown = shortened("\n[exit 0]", characters)
        script.ask([*history[:-1], tool(shown)], says("done"))
        assert triggered(script.trajectory()) == found


def test_short_outputs_and_outputs_that_were_not_shown_count_for_nothing() -> None:
    script = Script()
    script.ask([SYSTEM, TASK], says("look", "cat log"))
    script.ran("cat log", "x" * 399)
    script.ran("cat log", LONG)
    script.ask([SYSTEM, TASK, says("look", "cat log"), tool("x" * 120 + "...")], says("done"))
    assert triggered(script.trajectory()) == frozenset()


def test_turns_that_are_dropped_are_compaction() -> None:
    script = Script()
    history = worked(script, 5)
    script.ask([*history[:2], user("Earlier turns were removed."), *history[-4:]], says("done"))
    assert triggered(script.trajectory()) == {"compaction"}


def test_a_summary_in_place_of_all_turns_is_compaction() -> None:
    script = Script()
    history = worked(script, 3)
    assert len(history) == 8
    script.ask([SYSTEM, TASK, user("So far: you read 3 files.")], says("go on", "ls"))
    script.ran("ls", "a")
    assert triggered(script.trajectory()) == {"compaction"}


def test_a_side_question_is_no_compaction() -> None:
    """A helper's conversation ends and the main one goes on."""
    script = Script()
    history = worked(script, 2)
    aside = [user("Which of these is a year: 1960, 7?")]
    script.ask(aside, says("Let me see.", "ls"))
    script.ran("ls", "a")
    script.ask([*aside, says("Let me see.", "ls"), tool("a")], says("1960"))
    script.ask([*history, user("Advice: 1960")], says("done"))
    # The helper asked twice in the middle of the work; the main history came back whole.
    assert "compaction" not in triggered(script.trajectory())


def test_a_check_in_a_fresh_context_is_review() -> None:
    script = Script()
    script.ask(worked(script, 2), says("It is done."))
    review = [SYSTEM, user(f"Review the result of this task.\n\n{TASK['content']}")]
    script.ask(review, says("I look", "cat year.txt"))
    script.ran("cat year.txt", "1960")
    script.ask([*review, says("I look", "cat year.txt"), tool("1960")], says("Right."))
    assert triggered(script.trajectory()) == {"review"}


def test_a_final_answer_that_is_held_back_for_a_check_is_review() -> None:
    script = Script()
    script.ask([SYSTEM, TASK], says("", "final_answer 1960"))
    script.ask([SYSTEM, user(f"{TASK['content']}\nCheck: 1960")], says("", "final_answer 1960"))
    assert triggered(script.trajectory()) == {"review"}


def test_a_check_in_the_same_context_a_retry_and_another_sample_are_none() -> None:
    same = Script()
    history = worked(same, 2)
    same.ask(history, says("done"))
    same.ask([*history, says("done"), user("Is it really?")], says("yes"))
    retry = Script()
    retry.ask([SYSTEM, TASK], says("", "{broken"), violation="malformed")
    retry.ask([SYSTEM, TASK], says("done"))
    assert triggered(same.trajectory()) == triggered(retry.trajectory()) == frozenset()


def test_a_request_that_was_refused_is_read_too() -> None:
    script = Script()
    history = worked(script, 3)
    script.ask(history, None)  # the context is full
    script.ask([*history[:2], *history[-2:]], says("done"))
    assert triggered(script.trajectory()) == {"compaction"}
