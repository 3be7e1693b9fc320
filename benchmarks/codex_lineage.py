"""A run whose editors are Codex, as ``git log --graph`` shows it.

    python benchmarks/codex_lineage.py > docs/LINEAGE.md

Two rounds with the real Codex CLI against the scripted endpoint; the second one has an adoption, a
repair, a rejection and a hung session, and is killed by ``kill -9`` in the middle and resumed.
Needs `codex` on PATH.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from test_sessions_codex import evolved  # noqa: E402

GRAPH = [
    *("git", "log", "--graph", "--glob=refs/heads/evo/harness/*"),
    *("--glob=refs/coevo/evo/rejected/*", "--decorate-refs=refs/heads/evo/harness/*"),
    *("--decorate-refs=refs/coevo/evo/rejected/*", "--topo-order"),
    "--format=%h%d %s [%(trailers:key=Coevo-Check,valueonly,separator=%x2C)]",
]

PAGE = """\
# A run with Codex, as git shows it

Made by `python benchmarks/codex_lineage.py > docs/LINEAGE.md`: the real Codex CLI in its sandbox, a
scripted endpoint behind the gateway, a scripted model under the harnesses. In round 2, `k1` adopts
a design from `r001-k1` (its second parent), `k2` was sent back by the checks and repaired, `k3`
stayed broken, and `k4` hung until its limit; the engine was killed by `kill -9` while `k4` hung and
the others had ended, and went on by `dvc repro`. Rejected offspring are under `refs/coevo`, so
plain `git log` without the second glob leaves them out.

```
$ {command}
{graph}
```

The rounds, with their promotions (`git rounds`):

```
{rounds}
```
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch, evolved(Path(scratch)) as codex:
        graph = codex.run.ok(*GRAPH).rstrip()
        rounds = codex.run.ok("git", "rounds").rstrip()
    command = " ".join(f"'{word}'" if set(word) & set("*%[ ") else word for word in GRAPH)
    sys.stdout.write(PAGE.format(command=command, graph=graph, rounds=rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
