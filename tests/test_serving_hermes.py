"""Tool calls as text: what a model writes comes back as it was meant, or as malformed."""

import json
from pathlib import Path
from typing import Any

import pico
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import CheckpointError
from engine.serving import hermes
from engine.serving.prompt import ContextGuard, render, token_ids, tokenizer_of
from kernel.contract import ContextLengthExceeded, Sampling

names = st.text("abcdefgh_", min_size=1)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)
arguments = st.dictionaries(st.text(), values, max_size=3).filter(
    lambda value: "tool_call>" not in json.dumps(value) and "<|" not in json.dumps(value)
)
BROKEN = [
    '<tool_call>{"name": "f", "arguments": {"a": 1}',
    '<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>',
    '<tool_call>{"name": "f"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": "x"}</tool_call>',
    '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
    "<tool_call>f(1)</tool_call>",
    "</tool_call>",
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pico.write_checkpoint(tmp_path_factory.mktemp("pico") / "a")


@given(st.lists(st.tuples(names, arguments), max_size=3))
def test_what_is_rendered_is_parsed(calls: list[tuple[str, dict[str, Any]]]) -> None:
    text = "".join(hermes.render(name, json.dumps(value)) for name, value in calls)
    parsed = hermes.parse(text)
    assert not parsed.malformed
    assert [(c.name, json.loads(c.arguments)) for c in parsed.calls] == calls


@pytest.mark.parametrize("text", BROKEN)
def test_a_call_that_cant_be_parsed_is_malformed(text: str) -> None:
    assert hermes.parse(text) == (text, (), True)


@pytest.mark.parametrize("text", BROKEN)
def test_the_server_s_parser_neither_fails_on_a_broken_call_nor_loses_it(
    checkpoint: Path, text: str
) -> None:
    """What `transformers serve` runs on each reply."""
    got = tokenizer_of(checkpoint).parse_response(
        text + "<|im_end|>", prefix="<|im_start|>assistant\n"
    )
    calls = got.get("tool_calls", [])
    assert all(not hermes.well_formed(c["function"]["arguments"]) for c in calls)
    assert calls or hermes.parse(got["content"]).malformed


def test_the_template_shows_tools_calls_and_results(checkpoint: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "R"},
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    text = render(tokenizer_of(checkpoint), messages, tools, reply_next=True)
    assert '\n{"name":"f","parameters":{"type":"object"}}\n' in text
    assert text.endswith(
        '<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<tool_call>{"name": "f", '
        '"arguments": {"a": "é"}}</tool_call><|im_end|>\n<|im_start|>user\n'
        "<tool_response>R</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_without_tools_is_replaced(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((checkpoint / name).read_bytes())
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert hermes.ensure_tools(folder)
    assert not hermes.ensure_tools(folder)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="knows no tools"):
        hermes.ensure_tools(folder)


def test_a_prompt_over_the_context_is_refused_at_its_exact_length(checkpoint: Path) -> None:
    messages = [{"role": "user", "content": "light " * 300}]
    words = tokenizer_of(checkpoint)
    length = len(token_ids(words, render(words, messages, [], reply_next=True)))
    ContextGuard(checkpoint, length + 10).check(messages, [], Sampling(max_tokens=10))
    with pytest.raises(ContextLengthExceeded, match=f"{length} tokens"):
        ContextGuard(checkpoint, length + 9).check(messages, [], Sampling(max_tokens=10))
