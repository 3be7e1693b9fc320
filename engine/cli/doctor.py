"""doctor: what works here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from engine.cli.options import json_option, print_json
from engine.doctor import examine


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what works here and how to mend what doesn't; exit code 1 where a round can't run.

    \b
    coevo doctor --json
    """
    findings = examine(Path.cwd())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark = "ok" if finding.ok else ("MISSING" if finding.needed else "-")
            mend = "" if finding.ok or not finding.mend else f"  ({finding.mend})"
            click.echo(f"{mark:<8} {finding.name:<16} {finding.found}{mend}")
    if any(finding.needed and not finding.ok for finding in findings):
        raise SystemExit(1)


COMMANDS = (doctor,)
