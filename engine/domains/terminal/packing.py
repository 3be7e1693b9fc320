"""Files to and from the tar archives that go in and out of a shell."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Collection, Mapping


def packed(files: Mapping[str, bytes], programs: Collection[str] = ()) -> bytes:
    """An archive of relative paths; ``programs`` are executable. The same files, the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o755 if name in programs else 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    return buffer.getvalue()


def unpacked(archive: bytes, most: int) -> dict[str, bytes]:
    """The regular files of an archive, none after ``most`` bytes in all are reached."""
    found: dict[str, bytes] = {}
    if not archive:
        return found
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            stream = opened.extractfile(member) if member.isreg() else None
            if stream is None or member.size > most:
                continue
            most -= member.size
            found[member.name.removeprefix("./")] = stream.read()
    return found
