"""What is taught, and what is replayed."""

from __future__ import annotations

from pathlib import Path

from engine.adaptation.dataset import read_samples, samples_of, with_replay, write_samples
from engine.domains import Task, Verdict
from engine.records import Rollout
from kernel.trajectory import Trajectory

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "u"}


def reply(turn: int, text: str, violation: str = "") -> dict:
    message = {"role": "assistant", "content": text}
    return {
        "kind": "reply",
        "turn": turn,
        "message": message,
        "violation": violation,
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "latency_s": 0.0,
        "finish_reason": "stop",
    }


def rollout(*events: dict, violations: int = 0, name: str = "o1") -> Rollout:
    done = Trajectory(tuple(events), "answered", "x", 1, violations, 1, 1, 0.1)
    return Rollout(name, Task("t", "u", {}, {}, "c"), done, Verdict(1.0, True, {}))


def request(turn: int, keep: int, *messages: dict) -> dict:
    return {"kind": "request", "turn": turn, "keep": keep, "messages": list(messages)}


def test_a_violating_turn_stands_in_the_context_but_is_not_taught() -> None:
    wrong = {"role": "assistant", "content": "bad"}
    again = {"role": "user", "content": "again"}
    [sample] = samples_of(
        rollout(
            request(1, 0, SYSTEM, USER),
            reply(1, "bad", "malformed"),
            request(2, 2, wrong, again),
            reply(2, "good"),
            violations=1,
        )
    )
    assert [m["content"] for m in sample["messages"]] == ["s", "u", "bad", "again", "good"]
    assert sample["train_turns"] == [False, True]
    assert not sample["clean"]


def test_a_rewritten_history_is_a_sample_of_its_own() -> None:
    other = {"role": "user", "content": "other"}
    samples = samples_of(
        rollout(
            request(1, 0, SYSTEM, USER),
            reply(1, "one"),
            request(2, 1, other),
            reply(2, "two"),
        )
    )
    assert [s["messages"][-1]["content"] for s in samples] == ["one", "two"]


def test_nothing_is_taught_of_a_rollout_with_violations_only() -> None:
    assert samples_of(rollout(request(1, 0, USER), reply(1, "bad", "contract"))) == []


def sample(task: str, number: int = 1, clean: bool = True, part: int = 0) -> dict:
    return {"task": task, "round": number, "clean": clean, "part": part}


def test_replay_is_clean_once_per_task_and_bounded_by_the_new_tasks() -> None:
    new = [sample("a", 5), sample("a", 5, part=1), sample("b", 5)]
    earlier = [sample("c", 1), sample("d", 4, clean=False), sample("a", 4), sample("e", 2)]
    chosen, replayed = with_replay(new, [*earlier, sample("f", 3), sample("c", 4)])
    assert chosen == [*new, sample("c", 4), sample("f", 3)] and replayed == 2
    assert with_replay([], earlier) == ([], 0)


def test_what_a_data_set_had_itself_replayed_does_not_count_as_late() -> None:
    """Round 2's data set ends with round 1's sample; round 2's own goes first all the same."""
    first, second = [sample("old", 1)], [sample("late", 2), sample("old", 1)]
    chosen, replayed = with_replay([sample("new", 3)], [*first, *second])
    assert chosen == [sample("new", 3), sample("late", 2)] and replayed == 1


def test_a_replayed_trajectory_keeps_all_its_conversations_once() -> None:
    both = [sample("c", 2), sample("c", 2, part=1)]
    chosen, replayed = with_replay([sample("a", 4)], [sample("c", 1), *both, *both])
    assert chosen == [sample("a", 4), *both] and replayed == 1


def test_samples_round_trip(tmp_path: Path) -> None:
    """Also where they hold marks at which a text's lines end, but not a file's."""
    held = [sample("ü"), sample("one\u2028two\x85three")]
    path = write_samples(tmp_path, held)
    assert read_samples(path) == held
    assert write_samples(tmp_path, held) == path != write_samples(tmp_path, [])
