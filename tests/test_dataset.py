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


def sample(task: str, clean: bool = True, mark: int = 0) -> dict:
    return {"task": task, "clean": clean, "mark": mark}


def test_replay_is_clean_once_per_task_newest_first_and_bounded() -> None:
    new = [sample("a"), sample("b")]
    earlier = [
        sample("c", mark=1),
        sample("c", mark=2),
        sample("d", clean=False),
        sample("a"),
        sample("e"),
        sample("f"),
    ]
    chosen, replayed = with_replay(new, earlier)
    assert replayed == 2 and [s["task"] for s in chosen] == ["a", "b", "f", "e"]
    chosen, replayed = with_replay([*new, sample("x")], earlier)
    assert replayed == 3 and chosen[-1] == sample("c", mark=2)


def test_samples_round_trip(tmp_path: Path) -> None:
    path = write_samples(tmp_path, [sample("ü")])
    assert read_samples(path) == [sample("ü")]
    assert write_samples(tmp_path, [sample("ü")]) == path != write_samples(tmp_path, [])
