"""Runs a grader inside a fresh sandbox, so that what it grades can't speak for it.

The grader's own words are kept in memory and go to the host over a descriptor that nothing else
has. Code of the agent's that it runs is another process of the same user, which can neither read
the grader's memory nor open its descriptors.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import math
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FACTS = Path("/grader/facts.json")
_GRADER = "/grader/grade.py"
_SHOWN = 16_000
_DUMPABLE = 4


def run(
    facts: Mapping[str, Any], timeout_s: float, environment: Mapping[str, str]
) -> tuple[float, str]:
    """Score in [0, 1] and what the grader said, its last line the JSON with ``score``."""
    _FACTS.write_text(json.dumps(dict(facts), ensure_ascii=False), "utf-8")
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        os.setsid()
        os.environ.clear()
        os.environ.update(environment)
        _grade(writable)
    os.close(writable)
    text = _read(readable, time.monotonic() + timeout_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return _score(text), text[-_SHOWN:]


def _grade(report: int) -> None:
    ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
    said = io.StringIO()
    sys.path[:] = [path for path in sys.path if path != "/coevo"]
    os.chdir("/")
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(_GRADER, run_name="__main__")
    except SystemExit:
        pass
    except BaseException:  # noqa: BLE001 - a grader that fails on what it finds scores 0 and says so
        said.write("\n" + traceback.format_exc(limit=-4))
    with os.fdopen(report, "wb") as stream:
        stream.write(said.getvalue().encode("utf-8", "replace")[-4 * _SHOWN :])
    os._exit(0)


def _read(descriptor: int, until: float) -> str:
    import select

    parts = bytearray()
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        part = os.read(descriptor, 2**16) if ready else b""
        if not part:
            break
        parts += part
    os.close(descriptor)
    return parts.decode("utf-8", "replace").strip() or "the grader said nothing in its time"


def _score(text: str) -> float:
    """The last line's ``score``; 0 where there is none that is a number in [0, 1]."""
    try:
        score = float(json.loads(text.splitlines()[-1])["score"])
    except (ValueError, TypeError, KeyError, IndexError):
        return 0.0
    return score if math.isfinite(score) and 0 <= score <= 1 else 0.0
