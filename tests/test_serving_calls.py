"""Tool calls as text: what a model writes comes back as it was meant, or as malformed."""

import json
from pathlib import Path
from typing import Any

import pico
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import CheckpointError
from engine.serving import calls
from engine.serving.prompt import ContextGuard, render, token_ids, tokenizer_of
from kernel.contract import ContextLengthExceeded, Sampling

names = st.text("abcdefgh_", min_size=1)
values = (
    st.integers()
    | st.booleans()
    | st.text().filter(
        lambda text: not any(mark in text for mark in ("<", ">", "|")) and text == text.strip("\n")
    )
)
arguments = st.dictionaries(names, values, max_size=3)
BROKEN = [
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n",
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</function>\n</tool_call>",
    "<tool_call>\n<function=f>\nloose words\n</function>\n</tool_call>",
    "<tool_call><function=f></function><function=g></function></tool_call>",
    "<function=f></function>",
    '<tool_call>{"name": "f", "arguments": {"a": 1}',
    '<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>',
    '<tool_call>{"name": "f"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": "x"}</tool_call>',
    '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
    "<tool_call>f(1)</tool_call>",
    "</tool_call>",
]


def tool(name: str, **types: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pico.write_checkpoint(tmp_path_factory.mktemp("pico") / "a")


@given(st.lists(st.tuples(names, arguments), max_size=3))
def test_what_is_rendered_is_parsed(made: list[tuple[str, dict[str, Any]]]) -> None:
    text = "".join(calls.render(name, value) for name, value in made)
    kinds = {str: "string", int: "integer", bool: "boolean"}
    for name, value in made:
        tools = [tool(name, **{key: kinds[type(each)] for key, each in value.items()})]
        parsed = calls.parse(calls.render(name, value), tools)
        assert not parsed.malformed
        assert [(c.name, json.loads(c.arguments)) for c in parsed.calls] == [(name, value)]
    assert [c.name for c in calls.parse(text).calls] == [name for name, _ in made]


def test_the_hermes_form_is_read_too() -> None:
    text = 'ok <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    parsed = calls.parse(text)
    assert (parsed.content, parsed.malformed) == ("ok", False)
    assert [(c.name, c.arguments) for c in parsed.calls] == [("f", '{"a": 1}')]


def test_a_value_is_text_unless_its_schema_says_otherwise() -> None:
    text = calls.render("f", {"a": "12", "b": "12", "c": "x"})
    [call] = calls.parse(text, [tool("f", a="string", b="integer", c="integer")]).calls
    assert json.loads(call.arguments) == {"a": "12", "b": 12, "c": "x"}


@pytest.mark.parametrize("text", BROKEN)
def test_a_call_that_cant_be_parsed_is_malformed(text: str) -> None:
    assert calls.parse(text) == (text, (), True)


def test_the_template_shows_tools_calls_and_results(checkpoint: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "R"},
    ]
    text = render(tokenizer_of(checkpoint), messages, [tool("f", a="string")], reply_next=True)
    assert "\n- f(a: string)<|im_end|>\n" in text
    assert text.endswith(
        "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
        + calls.render("f", {"a": "é"})
        + "<|im_end|>\n<|im_start|>user\n"
        "<tool_response>R</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_without_tools_is_replaced(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((checkpoint / name).read_bytes())
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert calls.ensure_tools(folder)
    assert not calls.ensure_tools(folder)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="knows no tools"):
        calls.ensure_tools(folder)


def test_a_prompt_over_the_context_is_refused_at_its_exact_length(checkpoint: Path) -> None:
    messages = [{"role": "user", "content": "light " * 300}]
    words = tokenizer_of(checkpoint)
    length = len(token_ids(words, render(words, messages, [], reply_next=True)))
    ContextGuard(checkpoint, length + 10).check(messages, [], Sampling(max_tokens=10))
    with pytest.raises(ContextLengthExceeded, match=f"{length} tokens"):
        ContextGuard(checkpoint, length + 9).check(messages, [], Sampling(max_tokens=10))


def test_a_prompt_far_over_the_context_is_refused_without_a_tokenizer(tmp_path: Path) -> None:
    guard = ContextGuard(tmp_path / "no checkpoint", 110)
    messages = [{"role": "user", "content": "x" * 6500}]
    with pytest.raises(ContextLengthExceeded, match=r"65\d\d characters; 100 tokens fit"):
        guard.check(messages, [], Sampling(max_tokens=10))
