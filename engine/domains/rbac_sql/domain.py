"""The role-aware text-to-SQL domain (Spider under role-conditioned access control)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.domains import Objective, Task, Verdict
from engine.domains.rbac_sql import generator, loader
from engine.domains.rbac_sql.client import POOL, Judgement
from engine.domains.rbac_sql.direction import DIRECTION
from engine.domains.rbac_sql.scoring import (
    RIGHT,
    TURNS,
    counts,
    failure,
    figures,
    outcome,
    parse_answer,
    routing,
)
from engine.domains.rbac_sql.world import RbacSqlWorld
from engine.domains.split import TaskSplits

TOLERANCE = 0.01
"""How far safe_ex and ac_f1 may fall (paper, prompt C)."""


class RbacSql:
    """See engine.domains.Domain for the contract of each member."""

    name = "rbac_sql"
    turn_limit = 10
    entry_points: Mapping[str, tuple[str, ...]] = {
        "build_harness": ("policy_rows",),
        "Harness.route": ("question", "role", "tables"),
        "Harness.parse_access": ("value",),
    }
    seed_harness = Path(__file__).resolve().parents[3] / "seed_harnesses" / "rbac_sql"
    direction = DIRECTION

    def load(
        self, data: Path, seed: int, sizes: Mapping[str, int], skip_bad_rows: bool = False
    ) -> TaskSplits:
        return loader.load(data, seed, sizes, skip_bad_rows=skip_bad_rows)

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        return generator.generate(salt, seed, sizes)

    def world(self, task: Task) -> RbacSqlWorld:
        """The world of ``task.private['database']``; reference and label stay behind."""
        return RbacSqlWorld(task.public, task.private["database"])

    def practice(self, task: Task, instruction: str) -> Task:
        private = {"database": task.private["database"]}
        return Task("practice", instruction, task.public, private, content="", strata={})

    def verify(self, task: Task, answer: Any | None) -> Verdict:
        """Score 1 for right SQL on an allowed question and for refusing a denied one; else 0."""
        private, given = task.private, parse_answer(answer)
        judged: Judgement | None = None
        if given is not None and given.sql:
            judged = POOL.judge(
                private["database"], given.sql, private["gold_sql"], private["grants"]
            )
        name = outcome(private["permission"], given, judged)
        return Verdict(
            score=float(name in RIGHT),
            accepted=name in RIGHT,
            counts=counts(private["permission"], name),
            failure=failure(private["permission"], name, judged),
        )

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        """``score``, the figures of ``scoring.figures`` and, where the host counted the turns of
        all, ``llm_rate``, ``rule_rate`` and (where rules decided anything) ``rule_accuracy``."""
        found = [verdict for _, verdict in verdicts]
        total: Counter[str] = Counter()  # 0 for what no verdict counts
        for verdict in found:
            total.update(verdict.counts)
        score = sum(verdict.score for verdict in found) / max(len(found), 1)
        return {"score": score} | figures(total) | _routes(found)

    def objective(self, metrics: Mapping[str, float]) -> Objective:
        """The mean of Safe-EX and AC-F1 ranks; neither may fall by more than ``TOLERANCE``, and
        one of both or the share decided without the model must improve."""
        gates = {name: metrics[name] for name in ("safe_ex", "ac_f1")}
        without_model = {}
        if "llm_rate" in metrics:
            without_model = {"without_llm": 1.0 - metrics["llm_rate"]}
        return Objective(
            scalar=(metrics["safe_ex"] + metrics["ac_f1"]) / 2,
            gates=gates,
            tolerance=dict.fromkeys(gates, TOLERANCE),
            improves=gates | without_model,
        )


def _routes(verdicts: Sequence[Verdict]) -> dict[str, float]:
    if not verdicts or any(TURNS not in verdict.counts for verdict in verdicts):
        return {}
    model = sum(verdict.counts[TURNS] > 0 for verdict in verdicts)
    rules = [v for v in verdicts if v.counts[TURNS] == 0 and not v.counts["unanswered"]]
    found = routing(len(verdicts), model, len(rules), sum(v.accepted for v in rules))
    return {name: value for name, value in found._asdict().items() if value is not None}


DOMAIN = RbacSql()
