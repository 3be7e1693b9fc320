"""The kernel as update sessions see it: a folder in which ``python3 -m kernel.smoke`` runs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import kernel
from engine.editors.sessions.room import checkers


def kernel_folder(root: Path) -> Path:
    """A copy of the kernel with the packages its checks need, made once for each version of it.
    Sessions mount it read-only."""
    folder = root / ".coevo" / "evolution" / f"kernel-{kernel.digest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".kernel-") as scratch:
            made = Path(scratch) / "whole"
            made.mkdir()
            for name, source in {"kernel": Path(kernel.__file__).parent, **checkers()}.items():
                if source.is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", "tests")
                    shutil.copytree(source, made / name, ignore=ignored)
                else:
                    shutil.copyfile(source, made / name)
            made.rename(folder)
    return folder
