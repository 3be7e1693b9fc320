"""The fixed execution interface that harnesses run on: light, and never edited by evolution."""

from __future__ import annotations


def digest() -> str:
    """SHA-256 over the kernel's own sources; part of every rollout's identity."""
    import hashlib
    from pathlib import Path

    total = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        content = source.read_bytes()
        total.update(f"{source.name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()
