"""From rollouts to a pair's outcome (paper eq. 2 and 5), and the order of two outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from engine.domains import Domain
from engine.evaluation.keys import evaluation_key
from engine.records import Cost, Outcome, Rollout
from kernel.mismatch import timr


def measured(
    domain: Domain, rollouts: Sequence[Rollout], keys: Sequence[str], setting: Mapping[str, Any]
) -> Outcome:
    """Ĵ_D(p) = 1/(|D|·n_eval) Σ_x Σ_u s(x, τ_{x,u}), TIMR, the domain's metrics and objective;
    ``setting`` as ``Setting.recorded`` gives it."""
    metrics = domain.metrics([(r.task, r.verdict) for r in rollouts])
    objective = domain.objective(metrics)
    by_task: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        by_task[rollout.opaque_id].append(rollout.verdict.score)
    gates = dict(objective.gates)
    return Outcome(
        split=setting["split"],
        tasks=len(by_task),
        executions=len(rollouts) // max(len(by_task), 1),
        score=sum(r.verdict.score for r in rollouts) / max(len(rollouts), 1),
        timr=timr([r.trajectory for r in rollouts]),
        scalar=objective.scalar,
        gates=gates,
        metrics=metrics,
        ends=dict(Counter(r.trajectory.end for r in rollouts)),
        by_task={task: tuple(scores) for task, scores in sorted(by_task.items())},
        eval_key=evaluation_key(keys),
        cost=Cost(
            rollouts=len(rollouts),
            prompt_tokens=sum(r.trajectory.prompt_tokens for r in rollouts),
            completion_tokens=sum(r.trajectory.completion_tokens for r in rollouts),
            seconds=sum(r.trajectory.wall_s for r in rollouts),
        ),
        setting=setting,
    )


def rank(outcome: Outcome) -> tuple[float, float]:
    """Best first when sorted in reverse: the objective, then the lower TIMR."""
    return (outcome.scalar, -(outcome.timr if outcome.timr is not None else 1.0))
