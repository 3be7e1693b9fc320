"""Task folders in Harbor's format that need no container."""

from __future__ import annotations

from pathlib import Path

TOML = """\
schema_version = "1.4"

[metadata]
category = "{category}"
difficulty = "easy"

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 60.0
env = {{ WANTED = "{wanted}" }}

[environment]
workdir = "/app"
{more}
"""
TEST = """\
#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/answer.txt)" = "$WANTED" ]; then echo 1 > /logs/verifier/reward.txt
else echo "answer.txt is not $WANTED"; echo 0 > /logs/verifier/reward.txt; fi
"""


def write_task(data: Path, number: int, *, more: str = "", category: str = "sums") -> Path:
    """Add the two numbers in numbers.txt; returns its folder."""
    path = data / f"sum-{number}"
    for name in ("environment", "tests", "solution"):
        (path / name).mkdir(parents=True)
    wanted = str(number + 7)
    (path / "task.toml").write_text(TOML.format(category=category, wanted=wanted, more=more))
    (path / "instruction.md").write_text(
        f"Task {number}: numbers.txt holds two numbers. Write their sum to answer.txt.\n"
    )
    (path / "environment" / "numbers.txt").write_text(f"{number} 7\n")
    (path / "tests" / "test.sh").write_text(TEST)
    (path / "solution" / "solve.sh").write_text("tr ' ' + < numbers.txt | bc > answer.txt\n")
    return path


SOLVE = "python3 -c 'print(sum(map(int, open(\"numbers.txt\").read().split())))' > answer.txt"
