"""The host's side of one question: a read-only database to test SQL on, and the final answer.

The world is made of the database and what is public; it never sees the reference query. Testing a
statement doesn't tell whether the role's policy covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.domains.rbac_sql.client import POOL, Preview
from engine.domains.rbac_sql.querying import OK, STOPPED
from kernel.contract import ExecResult, InterfaceRules, ToolSchema

ROWS_SHOWN = 20


def _tool(name: str, description: str, properties: dict[str, Any], *required: str) -> ToolSchema:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: tuple[ToolSchema, ...] = (
    _tool(
        "test_sql",
        f"Run one SELECT on the database; its first {ROWS_SHOWN} rows or an error.",
        {"sql": {"type": "string", "description": "SQLite SQL."}},
        "sql",
    ),
    _tool(
        "final_answer",
        "Submit the access decision, with SQL where access is granted, and end the task.",
        {
            "access_granted": {
                "type": "boolean",
                "description": "Whether the policy covers every table and column needed.",
            },
            "sql": {"type": "string", "description": "The answer; only if access is granted."},
        },
        "access_granted",
    ),
)

RULES = InterfaceRules(tools=TOOLS, calls_per_turn=1, text_turns=False)


class RbacSqlWorld:
    """One rollout's world (kernel.contract.HostWorld)."""

    def __init__(self, public: Mapping[str, Any], database: Mapping[str, str]) -> None:
        self.public: dict[str, Any] = dict(public)
        self.rules = RULES
        self._database = database
        self._answer: dict[str, Any] | None = None

    @property
    def answer(self) -> dict[str, Any] | None:
        """The first answer submitted: ``access_granted`` and ``sql`` ('' beside a refusal)."""
        return self._answer

    async def exec(self, command: str) -> ExecResult:
        """There is no shell here."""
        return ExecResult("", "this world has no shell\n", 127)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool; a bad call gives text that begins with ``error:``."""
        sql = arguments.get("sql")
        if name == "final_answer":
            return self._submit(arguments.get("access_granted"), sql)
        if name != "test_sql":
            return f"error: no tool is called {name!r}; there are test_sql, final_answer"
        if not isinstance(sql, str):
            return "error: sql must be text"
        return shown(await POOL.preview_async(self._database, sql, ROWS_SHOWN))

    def _submit(self, access: Any, sql: Any) -> str:
        if not isinstance(access, bool):
            return "error: access_granted must be true or false"
        if not isinstance(sql, str | None):
            return "error: sql must be text"
        if self._answer is not None:
            return "already recorded: the first answer counts"
        self._answer = {"access_granted": access, "sql": (sql or "") if access else ""}
        return "recorded"


def shown(found: Preview) -> str:
    """A statement's outcome as the observation of ``test_sql``."""
    if found.status != OK and not (found.status == STOPPED and found.rows):
        return f"error: {found.detail}"
    lines = [" | ".join(found.columns), *(" | ".join(row) for row in found.rows)]
    if found.status == STOPPED:
        lines.append(f"({found.detail}: stopped here)")
    elif not found.rows:
        lines.append("(no rows)")
    return "\n".join(lines)
