"""The smallest complete agent: a loop until the model calls none of the tools there are."""

import json

PROMPT = """\
You work on your own inside a Linux container.
Look around and do the task with the tools you have.
Solve it yourself: don't look the answer up on the internet or take any other shortcut to it.
When you are done, answer with a closing message that calls no tool."""

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a bash command in the task's container; returns what it printed.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "What to run."}},
            "required": ["command"],
        },
    },
}


def render(result):
    stderr = f"[stderr]\n{result.stderr}" if result.stderr else ""
    parts = [result.stdout, stderr, f"[exit {result.return_code}]"]
    return "\n".join(part for part in parts if part)


async def observe(call, world):
    if call.name == "bash":
        return render(await world.exec(str(call.arguments.get("command", ""))))
    return await world.call(call.name, call.arguments)


async def run(instruction, model, world):
    given = f"\n\n{json.dumps(world.public)}" if world.public else ""
    messages = [
        {"role": "system", "content": PROMPT},
        {"role": "user", "content": instruction + given},
    ]
    tools = world.tools or [BASH]
    while True:
        reply = await model.chat(messages, tools=tools)
        messages.append(reply.message)
        if not reply.tool_calls:
            return
        for call in reply.tool_calls:
            content = await observe(call, world)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
