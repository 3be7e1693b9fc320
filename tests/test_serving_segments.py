"""Attention cut at the requests' bounds equals the masked attention over the whole row."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.serving.segments import attention

WIDTH = 8


class Cache:
    """A paged cache that has read all keys and values back already."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self._all = keys, values

    def update(self, key_states, value_states, layer_idx, kwargs):
        return self._all


def dense(query, keys, values, requests, groups):
    """Softmax(q·k/√width) over a request's own keys up to the query's position: the definition."""
    out = torch.zeros_like(query)
    first = start = 0
    for queries, past in requests:
        for row in range(queries):
            for head in range(query.shape[1]):
                seen = slice(start, start + past + row + 1)
                k, v = keys[0, head // groups, seen], values[0, head // groups, seen]
                weights = torch.softmax(k @ query[0, head, first + row] / WIDTH**0.5, 0)
                out[0, head, first + row] = weights @ v
        first, start = first + queries, start + queries + past
    return out.transpose(1, 2)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=1, max_size=4).filter(
        lambda requests: any(queries for queries, _ in requests)
    ),
    st.sampled_from([1, 3]),
    st.integers(0, 99),
)
def test_each_query_sees_its_own_request_alone(requests, groups, seed) -> None:
    """Fresh prompts, prompts behind a shared prefix, single tokens and empty requests, mixed."""
    torch.manual_seed(seed)
    queries, keys = sum(q for q, _ in requests), sum(q + p for q, p in requests)
    query = torch.randn(1, 2 * groups, queries, WIDTH)
    k, v = torch.randn(1, 2, keys, WIDTH), torch.randn(1, 2, keys, WIDTH)
    ends = [0], [0]
    for asked, past in requests:
        ends[0].append(ends[0][-1] + asked)
        ends[1].append(ends[1][-1] + asked + past)
    made, none = attention(
        SimpleNamespace(layer_idx=0),
        query,
        k[:, :, :0],
        v[:, :, :0],
        None,
        cache=Cache(k, v),
        cu_seq_lens_q=torch.tensor(ends[0]),
        cu_seq_lens_k=torch.tensor(ends[1]),
    )
    assert none is None
    torch.testing.assert_close(made, dense(query, k, v, requests, groups), atol=1e-5, rtol=1e-4)


def test_without_a_paged_cache_it_is_the_library_s_own() -> None:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    query, key = torch.randn(1, 2, 4, WIDTH), torch.randn(1, 2, 4, WIDTH)
    module = SimpleNamespace(is_causal=True)
    made, _ = attention(module, query, key, key, None)
    expected, _ = sdpa_attention_forward(module, query, key, key, None)
    assert torch.equal(made, expected)


def test_an_uneven_cut_is_refused() -> None:
    query, key = torch.randn(1, 1, 2, WIDTH), torch.randn(1, 1, 2, WIDTH)
    with pytest.raises(ValueError, match="zip"):
        attention(
            SimpleNamespace(layer_idx=0), query, key, key, None,
            cache=Cache(key, key),
            cu_seq_lens_q=torch.tensor([0, 1, 2]), cu_seq_lens_k=torch.tensor([0, 2]),
        )  # fmt: skip
