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
