"""doctor: what works here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from engine.cli.options import json_option, print_json
from engine.doctor import examine
from engine.errors import ConfigError
from engine.params import load, parse
from engine.presets import NAMES, default_domain
from engine.repository import preset_text


@click.command()
@click.option(
    "--params",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A params.yaml to plan with, instead of the one here.",
)
@click.option("--preset", type=click.Choice(NAMES), help="A preset to plan with.")
@click.option(
    "--domain", show_default="smart_home, or what the preset is for", help="The preset's domain."
)
@json_option
def doctor(file: Path | None, preset: str | None, domain: str | None, as_json: bool) -> None:
    """Say what works here and how to mend what doesn't; exit code 1 where a round can't run.

    With --params or --preset: what such a run would need of this machine (GPUs, memory, disk for
    all rounds, programs, endpoint, tokens), before anything is started.

    \b
    coevo doctor --json
    coevo doctor --params params/paper-attribution.yaml
    coevo doctor --preset paper --domain rbac_sql
    """
    if file is not None and preset is not None:
        raise ConfigError("doctor: --params or --preset, not both")
    planned = load(file) if file else None
    if preset is not None:
        planned = parse(preset_text(preset, domain or default_domain(preset)), f"preset {preset}")
    findings = examine(Path.cwd(), planned)
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
