import subprocess
import sys
from pathlib import Path

import pytest
from kernel_cases import PLAIN, harness

import kernel

ROOT = Path(kernel.__file__).resolve().parent.parent
GENERAL = ROOT / "seed_harnesses" / "general"


def smoke(*arguments: object) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "kernel.smoke", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, (done.stdout + done.stderr).splitlines()


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("options", [(), ("--inside",)])
def test_the_general_seed_passes(options):
    assert smoke(GENERAL, *options) == (0, ["SMOKE OK"])


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (harness("return 1 / 0"), "an answer: harness_error: ZeroDivisionError"),
        (harness("await model.chat([], mistake=1)"), "TypeError"),
        ({"harness.py": b"def run(instruction, model, world): ..."}, "no `async def run("),
        ({"harness.py": b"async def run(instruction): ..."}, "exactly instruction, model, world"),
        ({"harness.py": b"import requests"}, "No module named 'requests'"),
        ({"main.py": PLAIN}, "No module named 'harness'"),
        (harness("while True: await model.chat([])"), "never ends by itself"),
        (harness("reply = await model.chat([])\nreply.tool_calls[0]"), "IndexError"),
        ({"harness.py": PLAIN, "later.py": b"def ("}, "later.py does not compile"),
    ],
)
def test_what_fails_says_why(tmp_path, files, words):
    status, lines = smoke(write(tmp_path, files), "--inside")
    assert status == 1
    assert lines[-1] == "SMOKE FAILED"
    assert any(words in line for line in lines), lines


def test_the_budget_is_checked_against_the_base(tmp_path):
    base = write(tmp_path / "base", {"harness.py": PLAIN, "evolve_notes.md": b"a\n"})
    new = write(tmp_path / "new", {"harness.py": PLAIN + b"# 1\n# 2\n# 3\n"})
    assert smoke(new, "--base", base, "--budget", 3)[0] == 0
    status, lines = smoke(new, "--base", base, "--budget", 2)
    assert (status, lines[0]) == (1, "3 added lines, 2 are allowed")
    same = write(tmp_path / "same", {"harness.py": PLAIN, "evolve_notes.md": b"b\n"})
    assert smoke(same, "--base", base)[1][0] == "nothing changed but notes"
    (new / "link").symlink_to("/etc")
    assert smoke(new)[1][0] == "link is a symlink"


def test_entry_points_are_checked(tmp_path):
    folder = write(tmp_path, {"harness.py": PLAIN + b"def build_agent(settings, client): ...\n"})
    assert smoke(folder, "--entry", "build_agent(settings, client)")[0] == 0
    status, lines = smoke(folder, "--entry", "build_agent(settings)", "--inside")
    assert (status, "build_agent takes (settings, client)" in lines[0]) == (1, True)


def test_a_missing_folder_is_one_line(tmp_path):
    status, lines = smoke(tmp_path / "nowhere")
    assert status == 1
    assert len(lines) == 2
