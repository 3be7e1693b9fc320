"""``transformers serve`` with attention that looks at each request's own keys alone.

    python -m engine.serving.segments serve --device cpu --continuous-batching …

On a CPU its continuous batching packs all requests of a step into one row and hides them from each
other by a mask: every query is multiplied with the keys of all requests. Here the row is cut at the
requests' bounds first, through the library's own table of attention functions. The results are the
same; the work no longer grows with the square of what is in flight.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any


def attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    cache: Any = None,
    **kwargs: Any,
) -> tuple[Any, None]:
    """In place of ``sdpa``: (1, heads, queries, width) in, (1, queries, heads, width) out.

    Without a paged cache (one request at a time) it is the library's own.
    """
    import torch

    if cache is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        out, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return out, None
    key, value = cache.update(
        key_states=key, value_states=value, layer_idx=module.layer_idx, kwargs=kwargs
    )
    groups = query.shape[1] // key.shape[1]
    out = torch.empty_like(query)
    bounds = zip(
        pairwise(kwargs["cu_seq_lens_q"].tolist()),
        pairwise(kwargs["cu_seq_lens_k"].tolist()),
        strict=True,
    )
    for (first, last), (start, end) in bounds:
        if first < last:
            out[:, :, first:last] = _one(
                query[:, :, first:last], key[:, :, start:end], value[:, :, start:end],
                groups, scaling,
            )  # fmt: skip
    return out.transpose(1, 2).contiguous(), None


def _one(query: Any, key: Any, value: Any, groups: int, scaling: float | None) -> Any:
    """Causal attention of one request, whose queries are the last of its keys' positions."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    queries, keys = query.shape[2], key.shape[2]
    if queries == 1:  # the query heads that share a key head are its rows: one product for each
        rows = query.reshape(1, -1, groups, query.shape[-1])
        return attend(rows, key, value, scale=scaling).reshape(query.shape)
    if queries == keys:
        return attend(query, key, value, is_causal=True, scale=scaling, enable_gqa=groups > 1)
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return attend(query, key, value, attn_mask=seen, scale=scaling, enable_gqa=groups > 1)


def main() -> int:
    """Register the attention and hand over to the library's command line."""
    from transformers import AttentionInterface
    from transformers.cli.transformers import main as transformers

    AttentionInterface.register("sdpa", attention)
    return int(transformers() or 0)


if __name__ == "__main__":
    sys.exit(main())
