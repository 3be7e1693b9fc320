"""One base error, one subclass for each boundary that is crossed.

A message says what was wrong, where (file, key or hash), and what to do next. The CLI prints it
on one line and exits with the class's ``exit_code``; anything else is a bug and shows a traceback.
"""

from __future__ import annotations


class CoevoError(Exception):
    """A user-facing failure."""

    exit_code = 1


class ConfigError(CoevoError):
    """params.yaml, dvc.yaml or a command line is wrong."""

    exit_code = 2


class DataError(CoevoError):
    """A data set, predictions file or frozen split is wrong."""

    exit_code = 3


class ArchiveError(CoevoError):
    """The archive's repository or refs are not in a usable state."""

    exit_code = 4


class ArchiveLocked(ArchiveError):
    """Another live engine works on this run."""

    exit_code = 5


class ModelError(CoevoError):
    """An endpoint or server is dead, refuses, or serves other weights."""

    exit_code = 6


class CheckpointError(CoevoError):
    """A checkpoint is missing, truncated or can't be merged."""

    exit_code = 7


class TrainerError(CoevoError):
    """Training failed."""

    exit_code = 8


class SandboxError(CoevoError):
    """No sandbox works here, or it broke."""

    exit_code = 9


class BudgetSpent(CoevoError):
    """A cap on calls, tokens, money or seconds of language models leaves no further call.

    ``whose`` cap it is (round, role or session), ``cap`` its name, ``figures`` what was used of
    what, ``key`` the parameter that sets it.
    """

    exit_code = 10

    def __init__(
        self, role: str, session: str, whose: str, cap: str, figures: str, key: str
    ) -> None:
        self.role, self.session, self.whose, self.cap = role, session, whose, cap
        self.figures = figures
        mend = f"; raise {key}.{cap} and run `dvc repro` to go on" if key else ""
        who = f"{role} {session}".strip()
        super().__init__(
            f"{who}: the {whose}'s budget is spent ({figures}), no further call was made; what had "
            f"finished is kept{mend}"
        )


class HubError(CoevoError):
    """The Hub refuses, lacks what was asked for, or can't be reached."""

    exit_code = 11
