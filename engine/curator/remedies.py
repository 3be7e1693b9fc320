"""What may help against what: failure causes to mechanisms, the most promising first.

This is prior belief; the archive's outcomes correct it.
"""

from __future__ import annotations

from collections.abc import Mapping

_NO_ANSWER = ("accept_syntaxes", "retry_malformed", "answer_only", "system_wording")
_COMMANDS = (
    "choose_examples",
    "arrange_examples",
    "nearest_names",
    "ask_again",
    "room_methods",
    "example_count",
    "answer_only",
    "focus_index",
    "context_order",
    "system_wording",
)

_BY_CAUSE: Mapping[str, tuple[str, ...]] = {
    "malformed": _NO_ANSWER,
    "no_call": _NO_ANSWER,
    "no_commands": ("normalise_commands", "choose_examples", "system_wording", "answer_only"),
    "turn_limit": (
        "answer_only",
        "finish_in_time",
        "truncate_observations",
        "compact_history",
        "retry_malformed",
    ),
    "context_overflow": (
        "truncate_observations",
        "compact_history",
        "answer_only",
        "focus_index",
        "finish_in_time",
    ),
    "timeout": ("answer_only", "finish_in_time", "truncate_observations"),
    "harness_error": ("retry_malformed", "truncate_observations", "accept_syntaxes"),
    "wrong_command": _COMMANDS,
    "wrong_value": (
        "relative_changes",
        "normalise_commands",
        "room_state",
        "choose_examples",
        "arrange_examples",
    ),
    "accepted_infeasible": (
        "verify_commands",
        "nearest_names",
        "ask_again",
        "room_methods",
        "choose_examples",
    ),
    "rejected_feasible": _COMMANDS,
    "answered_denied": ("check_grants", "choose_examples", "arrange_examples", "example_count"),
    "broke_policy": ("check_grants", "choose_examples", "arrange_examples", "example_count"),
    "sql_error": ("try_sql", "choose_examples", "arrange_examples", "example_count"),
    "sql_stopped": ("try_sql", "choose_examples"),
    "no_sql": ("choose_examples", "arrange_examples", "retry_malformed"),
    "wrong_result": ("choose_examples", "arrange_examples", "example_count", "try_sql"),
    "over_refused": ("choose_examples", "example_count", "arrange_examples"),
    "wrong_step": ("read_unseen", "look_closer", "survey_log", "compact_history"),
    "wrong_agent": ("check_speaker", "read_unseen", "look_closer"),
    "wrong_agent_and_step": ("survey_log", "read_unseen", "look_closer", "check_speaker"),
    "too_few": ("split_request", "choose_examples", "example_count", "system_wording"),
    "too_many": ("split_request", "choose_examples", "arrange_examples", "system_wording"),
}
_ANY = ("choose_examples", "example_count", "arrange_examples", "context_order", "system_wording")


def remedies(cause: str) -> tuple[str, ...]:
    """Mechanisms that may help against a failure cause."""
    return _BY_CAUSE.get(cause, _ANY)
