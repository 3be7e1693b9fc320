"""What the meta-agent is told of this domain (after the first paper's Prompt D)."""

DIRECTION = """\
Domain. One household instruction holds one to ten requests about the devices of one home. The
agent turns them into device commands, and into error_input for each request that the home can't
fulfil: no such device, or the device has no such attribute. Raise Success (all commands right,
none too many) without losing micro F1 over commands. Answering error_input to everything is a trap
that looks like progress on infeasible instructions; F1 over real commands gives it away.

Interface to keep. build_agent(settings, client) returns an agent with initialize(instruction,
public_home, tools), step() and receive_tool_result(message). A step makes exactly one model
request and returns the model's own message with one tool call. inspect_home(room) and
list_methods(room) read the home; final_answer(commands) ends the task, with commands such as
{kitchen.light.set_brightness(20),error_input}. Scoring counts every command and every error_input
as often as it occurs; their order is free. Twenty turns.

Where to look. Choice of context: what of the home a request needs, no more. State grounding:
"by N percent" or "by N degrees" means N points up or down from the present value; "by N levels"
means N steps among low, medium, high. Resolution of rooms and devices: spoken names differ from
keys (the dining room is ding_room, the vacuum robot belongs to no room). Coverage of compound
instructions. Bounds and options of arguments. Telling a missing device or attribute from one that
is there. Recovery from a malformed or rejected call. Cost: turns and prompt length.

First harness. It shows a compact index of rooms and devices and four bundled examples; state and
signatures come from the tools. The examples show the form under other homes, they are no facts of
the present one. They may be edited, added to, ordered or chosen among; never take examples or
answers from other tasks.

Isolation. Read only what initialize and the tools deliver. No data files, no references, no
evaluator, no task ids, no other task. Pass observations on as they came; keep the user's request
as it was said. A change should state the failure it mends, from counts by subset and by number of
operations, and what should be seen if it works.
"""
