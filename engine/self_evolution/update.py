"""The update task I_t: what the proposer is told (second paper, appendix B; the words are ours).

It is an ordinary task to the agent: the same model under the same harness, whose own system prompt
comes first. Of all that it says only the budget changes from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.domains.terminal.honesty import HONESTY
from engine.self_evolution import places

_TASK = """\
Improve the agent harness that you are running on. What counts is how well it does on tasks it has \
never met: some will be of the kinds recorded here, others of kinds that appear nowhere in the \
records. So nothing is gained by remembering particular tasks or their answers, nor by writing in \
a phrase or a rule that only restates one trial (a fixed question to ask, a report dictated word \
for word). Ask what the records show about how the agent works in general, and improve that. Where \
you give the model guidance, teach it a way of working and leave the words to it.

What is here:
- `{workspace}` is the harness. Only what you change below it counts.
- `{base}` is the same harness as you found it, to compare with (read-only).
- `{kernel}` is the fixed kernel that loads and runs the harness. Read it to learn what a harness \
can rely on (`kernel/contract.py`, and `kernel/trajectory.py` for the form of the records); it \
can't be edited.
- `{trials}` holds the records of this harness's latest tasks, a folder for each trial, with \
nothing left out and nothing selected: `instruction.md`, `trajectory.jsonl` (every request, reply, \
command and output), `result.json` (score and how it ended), what the grader said, and in `agent/` \
the files that the trial kept. Trials marked `anchor` in `result.json` are tasks of earlier \
batches that were solved then and were run again with the present harness.{previous}

You are free in what you do with the harness: add, split or delete files; bring in skills, tools, \
prompts, memory, sub-agents, context management, planning, or anything of your own invention. Over \
many rounds it should become a complete harness that copes with all kinds of tasks, so try \
something new rather than polish one spot.

This is one round of many. The harness that you leave runs the next batch of tasks, and then runs \
this very task again, with the records of that batch.

The workspace has a notebook, `{notes}`, which goes with the harness from round to round. Bring it \
up to date before you finish. It is the place for whether earlier changes did what was expected of \
them, why or why not, and whether their gains held on this round's tasks; for how you read the \
present records; for what you changed and what you expect of it; for ideas that turned out not to \
work; and for whatever else the next round should know. Rewrite or delete what is outdated or \
proven wrong. Leave out the particulars of single tasks: none of them comes back.

Files written to `{logs}` in any task, this one too, are collected into that trial's `agent/` \
folder, where the next round sees them. So the agent, now and in tasks to come, chooses what to \
keep for later: a record in a form of its own, remarks on what went wrong, anything.

One request to the model holds at most {tokens:,} input tokens; a longer one fails with \
`context_length_exceeded`.

When you have finished, the result is checked: nothing is changed but below `{workspace}`, \
something other than `{notes}` is changed, and this command's last line is `SMOKE OK`:

    {smoke}

In this round you may add at most {budget} lines. Deleted lines and `{notes}` don't count; the \
command above counts for you. Use `/tmp` for scratch files, and commit nothing.
"""

_PREVIOUS = """
- `{previous}` is the record of the session that did this task last round: what it was told, its \
trajectory, and what the checks said."""

_REPAIR = """\


A session before this one did the task above, and the result does not pass the checks:

{reasons}

`{workspace}` holds the harness as that session left it, and `{base}` the one it started from. \
Mend what the checks name and keep the rest of its work. The budget counts against `{base}`.
"""


def update_task(budget: int, input_tokens: int, previous: bool) -> str:
    """The instruction of an update session. ``previous``: the last session's record is there."""
    return _task(budget, input_tokens, previous) + "\n" + HONESTY


def repair_task(budget: int, input_tokens: int, previous: bool, reasons: Sequence[str]) -> str:
    """The same task again with what the checks found wrong with its result."""
    found = "\n".join(f"- {reason}" for reason in reasons)
    repair = _REPAIR.format(reasons=found, workspace=places.WORKSPACE, base=places.BASE)
    return _task(budget, input_tokens, previous) + repair + "\n" + HONESTY


def _task(budget: int, input_tokens: int, previous: bool) -> str:
    return _TASK.format(
        workspace=places.WORKSPACE,
        base=places.BASE,
        kernel=places.KERNEL,
        trials=places.TRIALS,
        notes=places.NOTES,
        logs=places.LOGS,
        previous=_PREVIOUS.format(previous=places.PREVIOUS) if previous else "",
        tokens=input_tokens,
        smoke=places.smoke_command(budget),
        budget=budget,
    )
