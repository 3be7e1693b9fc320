"""The command line: each command parses, calls one function, prints."""

from __future__ import annotations

import errno
import signal
import sys
from types import FrameType

import click

from engine.cli import (
    agents,
    audit,
    costs,
    data,
    doctor,
    evaluate,
    history,
    runs,
    scores,
    solves,
    training,
    transfer,
)
from engine.errors import CoevoError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="coevo")
def cli() -> None:
    """CoEvo evolves an agent, its harness and its model checkpoint together; the archive of
    everything it tried is this git repository.

    \b
    dvc repro             run the next round here (or resume the one that broke off)
    coevo run --rounds 3  the same, three times
    coevo status          what the last round did, and what to type next
    coevo log             the lineage of harnesses
    """


for command in (
    *runs.COMMANDS,
    *history.COMMANDS,
    *agents.COMMANDS,
    *transfer.COMMANDS,
    *scores.COMMANDS,
    *audit.COMMANDS,
    *evaluate.COMMANDS,
    *solves.COMMANDS,
    *data.COMMANDS,
    *costs.COMMANDS,
    *training.COMMANDS,
    *doctor.COMMANDS,
):
    cli.add_command(command)


_MENDS = {
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT), "free some disk; what had finished is kept, run it again"
    ),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), "make it writable for this user, then run again"
    ),
    **dict.fromkeys(
        (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EEXIST),
        "nothing can be read or written under that name; give another",
    ),
    errno.EMFILE: "raise the limit of open files (ulimit -n), then run again",
    errno.EIO: "the disk or its file system fails; look at it before going on",
}
"""The machine's own refusals, which any file access may meet, and what to do about each."""

_LONGEST = 400
"""Characters of a path in a message."""


def main() -> None:
    """The console script: a user's mistake is one line and an exit code, never a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo(
            "interrupted; what had finished is kept: `dvc repro` goes on from here", err=True
        )
        sys.exit(130)
    except CoevoError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        if error.errno not in _MENDS:
            raise
        name = str(error.filename or "")
        where = f"{name if len(name) <= _LONGEST else name[:_LONGEST] + '...'}: " if name else ""
        click.echo(f"error: {where}{error.strerror}; {_MENDS[error.errno]}", err=True)
        sys.exit(1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM unwinds like Ctrl-C, so that servers and sandboxes are stopped."""
    del number, frame
    raise KeyboardInterrupt
