"""Where the console script begins: loading the commands takes a while, and Ctrl-C counts then."""

from __future__ import annotations

import sys


def main() -> None:
    """See ``engine.cli.main``."""
    try:
        from engine.cli import main as command_line
    except KeyboardInterrupt:
        sys.stderr.write("interrupted before anything began\n")
        sys.exit(130)
    command_line()
