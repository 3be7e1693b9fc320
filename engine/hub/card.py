"""The model card of a pair: where it comes from, what it scored, how to serve and run it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from engine.archive.entries import Checkpoint, Entry, Harness, Pair
from engine.context import Context
from engine.records import Outcome
from engine.statistics import Difference, paired_bootstrap

_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_CARRIED = ("license", "license_name", "license_link", "language")
MAX_NODES = 60


def text(context: Context, repo: str, tag: str, pair: Pair) -> str:
    """The whole README.md."""
    checkpoint = context.archive.checkpoint(pair.checkpoint)
    front = _front(context, checkpoint)
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---",
        f"# {context.params.run} {pair.label}",
        _intro(context, tag, pair),
        "## Results\n\n" + _results(context, pair),
        "## Lineage\n\n" + _lineage(context, pair, checkpoint),
        "## Serve and run\n\n" + _usage(repo, tag),
        "## License\n\n" + _license(front),
    ]
    return "\n\n".join(parts) + "\n"


def _intro(context: Context, tag: str, pair: Pair) -> str:
    return (
        f"An agent that CoEvo evolved for `{context.domain.name}`: this model together with the "
        f"harness below `harness/`. Pair `{pair.oid}` of run `{context.params.run}`, round "
        f"{pair.round}; this revision is tagged `{tag}`. `coevo.json` names every file with its "
        "sha256."
    )


# --- the front matter ---------------------------------------------------------------------------


def _front(context: Context, checkpoint: Checkpoint) -> dict[str, Any]:
    seeds = [_front_matter(seed) for seed in _ancestors(context, checkpoint) if not seed.sources]
    carried = {
        key: found[0] if len(found) == 1 else "other"
        for key in _CARRIED
        if (found := _distinct(front[key] for front in seeds if front.get(key)))
    }
    bases = _distinct(front["base_model"] for front in seeds if front.get("base_model"))
    return {
        "license": carried.pop("license", "unknown"),
        **carried,
        **({"base_model": bases[0] if len(bases) == 1 else bases} if bases else {}),
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["coevo", "agent", context.domain.name],
    }


def _front_matter(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """What a seed's own card declares, and the Hub model that it was fetched from."""
    found = _FRONT.match(checkpoint.files["README.md"].decode(errors="replace"))
    try:
        front = yaml.safe_load(found[1]) if found else {}
    except yaml.YAMLError:
        front = {}
    own = dict(front) if isinstance(front, Mapping) else {}
    source = str(checkpoint.provenance.get("source", ""))
    if source.startswith("hub:"):
        own["base_model"] = source.removeprefix("hub:")
    return own


def _license(front: Mapping[str, Any]) -> str:
    if front["license"] == "unknown":
        return (
            "The base model's card names no license, so this one can't: find the base's terms "
            "before you use or share these weights."
        )
    return f"`{front['license']}`, carried over from the base model, whose terms apply."


# --- results ------------------------------------------------------------------------------------


def _results(context: Context, pair: Pair) -> str:
    outcome, seed = context.outcome(pair), context.outcome(context.archive.rounds()[0].incumbent)
    rows = [f"| score | {outcome.score:.3f} | {_interval(_own(outcome))} |"]
    shared = sorted(set(outcome.by_task) & set(seed.by_task))
    if shared and seed.eval_key != outcome.eval_key:
        gain = paired_bootstrap(_means(seed, shared), _means(outcome, shared))
        rows.append(f"| gain over the seed pair | {gain.mean:+.3f} | {_interval(gain)} |")
    for name, value in sorted(outcome.metrics.items()):
        if name != "score":
            rows.append(f"| {name} | {value:.3f} | |")
    rows.append(f"| TIMR | {'undefined' if outcome.timr is None else f'{outcome.timr:.4f}'} | |")
    return (
        f"On the frozen {outcome.split} split: {outcome.tasks} tasks, {outcome.executions} "
        "execution(s) each. Selection used this split, so its figures lean upwards.\n\n"
        "| metric | value | 95 % bootstrap over tasks |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "TIMR is the share of the model's turns that broke the interface. The archive keeps "
        "per-task figures of the score alone, so the others have no interval."
    )


def _own(outcome: Outcome) -> Difference:
    scores = _means(outcome, sorted(outcome.by_task))
    return paired_bootstrap([0.0] * len(scores), scores)


def _means(outcome: Outcome, tasks: Iterable[str]) -> list[float]:
    return [fmean(outcome.by_task[task]) for task in tasks]


def _interval(found: Difference) -> str:
    return f"{found.low:.3f} to {found.high:.3f}"


# --- lineage ------------------------------------------------------------------------------------


def _lineage(context: Context, pair: Pair, checkpoint: Checkpoint) -> str:
    harnesses = _ancestors(context, context.archive.harness(pair.harness))
    checkpoints = _ancestors(context, checkpoint)
    lines = ["```mermaid", "graph TD"]
    lines.append(f'  p{pair.oid[:10]}(["pair {pair.label}"])')
    kept = [*harnesses, *checkpoints][:MAX_NODES]
    lines += [_node(entry) for entry in kept]
    lines += list(_edges(pair, kept))
    lines.append("```")
    left = len(harnesses) + len(checkpoints) - len(kept)
    more = f"\n\n{left} older ones are left out; the archive has them." if left else ""
    return "\n".join(lines) + more + "\n\n" + "\n".join(_made(each) for each in checkpoints)


def _node(entry: Entry) -> str:
    if isinstance(entry, Harness):
        return f'  h{entry.oid[:10]}["harness {entry.label}"]'
    return f'  c{entry.oid[:10]}[("checkpoint {entry.label}")]'


def _edges(pair: Pair, kept: Iterable[Harness | Checkpoint]) -> Iterator[str]:
    known = list(kept)
    here = {entry.oid for entry in known}
    yield f"  h{pair.harness[:10]} --> p{pair.oid[:10]}"
    yield f"  c{pair.checkpoint[:10]} --> p{pair.oid[:10]}"
    for entry in known:
        if isinstance(entry, Harness):
            if entry.base in here:
                yield f"  h{str(entry.base)[:10]} --> h{entry.oid[:10]}"
            for adoption in entry.adopts:
                if adoption.oid in here:
                    yield f"  h{adoption.oid[:10]} -. adopted .-> h{entry.oid[:10]}"
        else:
            for source, alpha in zip(entry.sources, entry.alpha, strict=True):
                if source in here:
                    how = "SFT" if entry.method == "sft" else f"α {alpha:g}"
                    yield f"  c{source[:10]} -- {how} --> c{entry.oid[:10]}"


def _made(checkpoint: Checkpoint) -> str:
    """How a checkpoint came about, on one line."""
    made = checkpoint.provenance
    head = f"- checkpoint {checkpoint.label} (weights `{checkpoint.weights[:16]}…`): "
    if checkpoint.method == "sft":
        data = yaml.safe_load(str(made["dataset"]))["outs"][0]["md5"]
        return head + (
            f"{_training(made)} of `{checkpoint.sources[0][:12]}` on {made.get('trained', '?')} "
            f"verifier-accepted conversations sampled under harness "
            f"`{(checkpoint.trained_under or '')[:12]}`; training data md5 `{data}`"
        )
    if checkpoint.method == "ties":
        pairs = zip(checkpoint.alpha, checkpoint.sources, strict=True)
        mixture = ", ".join(f"α {alpha:g} of `{source[:12]}`" for alpha, source in pairs)
        return head + f"TIES merge, {mixture}, density {made.get('density', '?')}"
    return head + f"the seed, {_origin(str(made.get('model') or 'of unknown origin'))}"


def _training(provenance: Mapping[str, Any]) -> str:
    lora = dict(provenance.get("settings") or {}).get("lora")
    return "SFT by LoRA, merged," if lora else "full-parameter SFT"


def _origin(model: str) -> str:
    """A model's name; of a folder the last part, since the rest is about somebody's machine."""
    return Path(model).name if model.startswith(("/", "~", ".")) else model


def _ancestors(context: Context, entry: Any) -> list[Any]:
    """An entry and all of its kind that it descends from, newest first."""
    read = context.archive.harness if isinstance(entry, Harness) else context.archive.checkpoint
    found, todo = {entry.oid: entry}, [entry]
    while todo:
        own = todo.pop(0)
        if isinstance(own, Harness):
            parents = [*([own.base] if own.base else []), *(each.oid for each in own.adopts)]
        else:
            parents = list(own.sources)
        for oid in parents:
            if oid not in found:
                found[oid] = read(oid)
                todo.append(found[oid])
    return sorted(found.values(), key=lambda each: (each.round, each.label), reverse=True)


def _usage(repo: str, tag: str) -> str:
    return (
        "The model alone:\n\n"
        f"```python\nAutoModelForCausalLM.from_pretrained({repo!r}, revision={tag!r})\n```\n\n"
        f"```sh\nvllm serve {repo} --revision {tag} --enable-auto-tool-choice --tool-call-parser "
        "hermes\n```\n\n(the parser that fits the chat template; CoEvo's own template writes calls "
        "as `<tool_call>` tags). The whole agent, its harness confined to a sandbox:\n\n"
        f"```sh\ncoevo pull --hub {repo} --revision {tag} --to my-agent\n"
        'my-agent/run.sh "AN INSTRUCTION"\n```\n\n'
        f"In a clone of the run's archive, `coevo pull --hub {repo}` brings the weights and `coevo "
        "replay` measures the pair again."
    )


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({str(value): value for value in values}.values())
