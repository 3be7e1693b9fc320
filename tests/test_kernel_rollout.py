"""One rollout, well-behaved or clumsy: what the host records and how it ends."""

import asyncio
import json
import time

import pytest
from kernel_cases import GOOD_STEPS, LIMITS, PLAIN, RULES, harness, play, tell

from kernel.contract import (
    ContextLengthExceeded,
    InterfaceRules,
    Limits,
    ModelUnavailable,
    RequestRefused,
    Sampling,
)
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, ScriptedWorld, call, malformed, text
from kernel.trajectory import messages

CHAT = 'messages = [{"role": "user", "content": instruction}]\n'


@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
def test_a_whole_episode(sandbox):
    world = ScriptedWorld(RULES, {"rooms": ["hall"]}, observation="a lamp")
    trajectory = play({"harness.py": PLAIN}, GOOD_STEPS, world, sandbox=sandbox)
    assert (trajectory.end, trajectory.error) == ("answered", "")
    assert trajectory.answer == {"value": 7}
    assert world.calls == [("look", {"room": "hall"}), ("final_answer", {"value": 7})]
    assert (trajectory.turns, trajectory.violations) == (2, 0)
    assert (trajectory.prompt_tokens, trajectory.completion_tokens) == (20, 10)
    kinds = [event["kind"] for event in trajectory.events]
    assert kinds == ["request", "reply", "call", "request", "reply", "call"]
    first, second = messages(trajectory)
    assert second.messages[: len(first.messages) + 1] == [*first.messages, first.reply]
    assert second.messages[-1]["content"] == "a lamp"


def test_the_harness_sees_world_and_instruction_and_nothing_of_the_notes():
    body = """
    import json, os
    await world.exec(json.dumps([instruction, world.public, world.tools, os.listdir("/harness")]))
    """
    files = {**harness(body), "evolve_notes.md": b"n", "evolution_report.md": b"r", "a/b.py": b""}
    said = tell(files, instruction="Ünïcode 😀")
    assert said[:2] == ["Ünïcode 😀", {}]
    assert said[2][0]["function"]["name"] == "bash"
    assert sorted(said[3]) == ["a", "harness.py"]


def test_images_pass_through():
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = f"""
    await model.chat([{{"role": "user", "content": [{part!r}]}}])
    """
    trajectory = play(harness(body), [text("nice")])
    assert trajectory.events[0]["messages"][0]["content"] == [part]


def test_sampling_and_seeds_belong_to_the_host():
    async def seeds(seed: int) -> list[int]:
        model = ScriptedModel(GOOD_STEPS)
        async with WorkerPool() as pool:
            sampling = Sampling(temperature=0.7)
            world = ScriptedWorld(RULES)
            await pool.run({"harness.py": PLAIN}, "x", model, world, LIMITS, sampling, seed)
        assert {request[2].temperature for request in model.requests} == {0.7}
        return [request[3] for request in model.requests]

    first, again, other = (asyncio.run(seeds(seed)) for seed in (1, 1, 2))
    assert first == again
    assert len({*first, *other}) == 4


def test_chance_inside_the_harness_repeats():
    body = """
    import json, random
    await world.exec(json.dumps([random.random(), list({"a", "b", "c", "d"}), hash("x")]))
    """
    assert tell(harness(body)) == tell(harness(body))


@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
@pytest.mark.parametrize(
    ("body", "end", "word"),
    [
        ("return", "no_answer", ""),
        ("raise KeyError('lost')", "harness_error", "KeyError: 'lost'"),
        ("raise SystemExit(3)", "harness_error", "SystemExit"),
        ("import os; os._exit(0)", "harness_error", "without a word"),
        ("import os; os.kill(os.getpid(), 11)", "harness_error", "without a word"),
        ("import ctypes; ctypes.string_at(0)", "harness_error", "without a word"),
        ("import nothing_like_it", "harness_error", "nothing_like_it"),
        ("while True: await model.chat([])", "turn_limit", ""),
        ("await model.chat(['x'])", "model_error", "role"),
        ("await model.chat([{'role': 'user', 'content': 3}])", "model_error", "content"),
        ("await model.chat([{'role': 'user'}], tools=[{}])", "model_error", "tool"),
        ("await model.chat([{'role': {1, 2}}])", "harness_error", "TypeError"),
        (
            "await model.chat([{'role': 'user', 'content': 'x' * 5_000_000}])",
            "harness_error",
            "lim",
        ),
    ],
)
def test_ends(sandbox, body, end, word):
    if sandbox == "bwrap" and "os.kill" in body:
        pytest.skip("the init of a namespace doesn't hear its own signals")
    trajectory = play(harness(body), [text("hm")], sandbox=sandbox)
    assert (trajectory.end, trajectory.answer) == (end, None)
    assert word in trajectory.error


@pytest.mark.parametrize(
    "files",
    [{}, {"harness.py": b"def run(:"}, {"harness.py": b"x = 1"}, {"harness.py": b"1 / 0"}],
)
def test_a_broken_workspace_is_a_harness_error(files):
    assert play(files).end == "harness_error"


def test_the_turn_limit_is_exact():
    body = "for _ in range(6): await model.chat([])"
    assert play(harness(body), [text("x")]).end == "no_answer"
    body = "for _ in range(7): await model.chat([])"
    trajectory = play(harness(body), [text("x")])
    assert (trajectory.end, trajectory.turns) == ("turn_limit", 6)


def test_an_overflow_is_raised_inside_and_ends_the_episode_only_if_it_escapes():
    steps = [ContextLengthExceeded("8193 tokens"), text("hm")]
    caught = """
    try:
        await model.chat([{"role": "user", "content": "long"}])
    except Exception as error:
        assert error.code == "context_length_exceeded", error
        await model.chat([{"role": "user", "content": "short"}])
    """
    trajectory = play(harness(caught), steps)
    assert (trajectory.end, trajectory.error, trajectory.turns) == ("no_answer", "", 1)
    escaped = play(harness("await model.chat([])"), steps)
    assert (escaped.end, escaped.turns) == ("context_overflow", 0)
    assert "8193 tokens" in escaped.error
    refused = play(harness("await model.chat([])"), [RequestRefused("no images")])
    assert refused.end == "model_error"


def test_an_overflow_that_never_happened_is_not_believed():
    body = """
    class Fake(Exception):
        code = "context_length_exceeded"
    raise Fake()
    """
    assert play(harness(body)).end == "harness_error"


def test_after_an_answer_calls_are_refused():
    body = """
    import json
    first = await world.call("final_answer", {"value": 1})
    second = await world.call("final_answer", {"value": 2})
    look = await world.call("look", {"room": "x"})
    shell = await world.exec("ls")
    assert (first, shell.return_code) == ("recorded", 1)
    assert "refused" in second and "refused" in look and "refused" in shell.stderr
    raise ValueError("late")
    """
    world = ScriptedWorld(RULES)
    trajectory = play(harness(body), [text("x")], world)
    assert (trajectory.end, trajectory.answer, trajectory.turns) == ("answered", {"value": 1}, 0)
    assert "late" in trajectory.error
    assert len(world.calls) == 1


@pytest.mark.parametrize(
    "answering",
    [
        'await world.call("final_answer", {"value": 1})',
        'go(world.call("final_answer", {"value": 1})); await asyncio.sleep(0)',
    ],
    ids=["awaited", "in the background"],
)
def test_no_turn_after_the_answer_thins_the_violations_out(answering):
    body = f"""
    import asyncio
    go = asyncio.ensure_future
    await model.chat([])
    {answering}
    for _ in range(4):
        await model.chat([])
    """
    world = ScriptedWorld(RULES)
    steps = [malformed(), call("look", {"room": "hall"})]
    trajectory = play(harness(body), steps, world)
    assert (trajectory.end, trajectory.answer, trajectory.error) == ("answered", {"value": 1}, "")
    assert (trajectory.turns, trajectory.violations) == (1, 1)
    assert [event["kind"] for event in trajectory.events] == ["request", "reply", "call"]


def test_a_bad_call_is_answered_with_text_and_never_reaches_the_world():
    body = """
    a = await world.call("open", {})
    b = await world.call("look", {"room": 3})
    assert a == "error: there is no tool 'open'; available: look, final_answer", a
    assert b.startswith("error: arguments of look: room: 3 is not of type"), b
    """
    world = ScriptedWorld(RULES)
    trajectory = play(harness(body), world=world)
    assert (trajectory.end, trajectory.error, world.calls) == ("no_answer", "", [])


def test_long_observations_are_cut():
    body = """
    seen = await world.exec("ls")
    assert len(seen.stdout) < 300 and "bytes more]" in seen.stdout, len(seen.stdout)
    """
    world = ScriptedWorld(observation="ü" * 1000)
    limits = Limits(turns=2, wall_s=20, output_bytes=401)
    assert play(harness(body), world=world, limits=limits).error == ""


def test_side_by_side_requests_each_get_their_own_reply():
    body = """
    import asyncio
    ask = lambda n: model.chat([{"role": "user", "content": str(n)}])
    replies = await asyncio.gather(*[ask(n) for n in range(5)])
    assert [reply.message["content"] for reply in replies] == list("01234")
    """
    trajectory = play(harness(body), [lambda sent, _: text(sent[0]["content"])])
    assert (trajectory.error, trajectory.turns) == ("", 5)


def test_waiting_for_the_model_is_not_charged():
    body = "for _ in range(3): await model.chat([])"

    async def main() -> str:
        model = ScriptedModel([text("x")], latency_s=1.5)
        world = ScriptedWorld(InterfaceRules(wants_answer=False, text_turns=True))
        limits = Limits(turns=5, wall_s=4.0)
        async with WorkerPool() as pool:
            trajectory = await pool.run(harness(body), "x", model, world, limits, Sampling(), 0)
        assert trajectory.wall_s > 4.0
        return trajectory.end

    assert asyncio.run(main()) == "answered"


def test_the_harness_own_time_is_limited():
    limits = Limits(turns=5, wall_s=0.5)
    started = time.monotonic()
    trajectory = play(harness("import asyncio; await asyncio.sleep(60)"), limits=limits)
    assert (trajectory.end, trajectory.error) == ("timeout", "over 0.5 s of its own time")
    assert time.monotonic() - started < 50


def test_ordinary_python_works_inside():
    body = """
    import asyncio, json, logging, multiprocessing, subprocess, sys, tempfile
    print("to nowhere"); print("to nowhere", file=sys.stderr, flush=True)
    logging.getLogger().warning("to nowhere")
    plain = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print(2)", stdout=asyncio.subprocess.PIPE)
    piped, _ = await child.communicate()
    thread = await asyncio.to_thread(lambda: 3)
    with tempfile.NamedTemporaryFile("w+") as file, multiprocessing.Lock():
        file.write("4")
    said = [plain.stdout, piped.decode(), thread, tempfile.gettempdir()]
    await world.exec(json.dumps(said))
    """
    assert tell(harness(body)) == ["1\n", "2\n", 3, "/tmp"]


def test_a_workspace_may_hold_any_bytes_and_folders():
    files = {
        "harness.py": b"import mechanisms.one\nrun = mechanisms.one.run\n",
        "mechanisms/one.py": PLAIN,
        "data/examples.bin": bytes(range(256)),
    }
    assert play(files).end == "answered"


def test_many_rollouts_at_once():
    async def main() -> list[str]:
        async with WorkerPool() as pool:
            runs = [
                pool.run(
                    {"harness.py": PLAIN},
                    "x",
                    ScriptedModel(GOOD_STEPS, latency_s=0.5),
                    ScriptedWorld(RULES),
                    LIMITS,
                    Sampling(),
                    n,
                )
                for n in range(120)
            ]
            return [trajectory.end for trajectory in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == ["answered"] * 120


def test_a_models_odd_text_is_kept_and_harmless():
    odd = call("look", '{"room": "\\ud800"}')
    body = """
    for _ in range(2):
        reply = await model.chat([])
        for one in reply.tool_calls:
            await world.call(one.name, one.arguments)
    """
    trajectory = play(harness(body), [text("a\ud800b"), odd])
    assert (trajectory.error, trajectory.turns, trajectory.violations) == ("", 2, 1)
    assert trajectory.events[1]["message"]["content"] == "a?b"
    json.dumps(trajectory.to_json(), ensure_ascii=False).encode()


def test_a_dead_endpoint_is_no_score():
    with pytest.raises(ModelUnavailable, match="refused"):
        play({"harness.py": PLAIN}, [ModelUnavailable("connection refused")])


def test_a_broken_world_is_no_harness_fault():
    class Broken(ScriptedWorld):
        async def call(self, name, arguments):
            raise ZeroDivisionError("a bug of the domain")

    with pytest.raises(ZeroDivisionError):
        play({"harness.py": PLAIN}, world=Broken(RULES))


def test_unparsed_arguments_stay_in_the_text_and_out_of_the_calls():
    body = """
    reply = await model.chat([])
    assert reply.tool_calls == [] and "tool_calls" not in reply.message, reply
    assert '{"room": ' in reply.message["content"]
    """
    trajectory = play(harness(body), [call("look", '{"room": ')])
    assert (trajectory.error, trajectory.violations) == ("", 1)
