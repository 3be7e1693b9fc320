"""A coding agent without a model, for sessions: does what a plan says for its brief's slot.

    python3 session_agent.py PLAN.json

The plan maps a slot (``k2``, or ``k2-repair`` for a repair) to the names of functions below, run in
order. Runs inside the sandbox, with nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

PROMPT = Path("/coevo/session/prompt.md").read_text()
ARCHIVE, WORK = Path("/coevo/archive"), Path("/coevo/desk")
CANDIDATE = WORK / "candidate"
SLOT = re.findall(r"^# Brief (\S+)", PROMPT, re.MULTILINE)[0]
BASE = re.findall(r"now a copy of (\S+?)\.", PROMPT)[0]


def edit() -> None:
    """A change of its own to every slot's harness."""
    path = CANDIDATE / "harness.py"
    mark = f"{SLOT}_{len(list(ARCHIVE.glob('harnesses/*')))}"
    path.write_text(path.read_text() + f"\n\ndef mark_{mark}() -> str:\n    return {mark!r}\n")


def declare(base: str = BASE, adopts: tuple[tuple[str, str], ...] = ()) -> None:
    diagnosis = {
        "baseline": "score 0.3",
        "addressable": "all",
        "files": ["harness.py"],
        "mechanisms": "a mark",
        "expected": "none",
        "risks": "none",
    }
    facts = {
        "base": base,
        "adopts": [{"harness": name, "what": what} for name, what in adopts],
        "subject": f"Mark {SLOT}",
        "diagnosis": diagnosis,
    }
    (WORK / "coevo.json").write_text(json.dumps(facts))


def report() -> None:
    (CANDIDATE / "evolve_notes.md").write_text(f"HARNESS DIAGNOSIS of {SLOT}: all is well.\n")
    (CANDIDATE / "evolution_report.md").write_text(
        "Base: as declared. Changed files: harness.py, borrowed.py. Mechanism: a mark. Expected "
        f"effect: none. Checks: smoke. Assumptions: none. Risks: none. By {SLOT}.\n"
    )


def good() -> None:
    edit()
    declare()
    report()


def wait() -> None:
    time.sleep(3)


def smoke() -> None:
    """The checks as the prompt names them, run inside; what they print is kept in the notes."""
    done = subprocess.run(
        ["sh", "/coevo/session/check", "--base", f"{ARCHIVE}/harnesses/{BASE}"],
        capture_output=True,
        text=True,
        check=False,
    )
    with (CANDIDATE / "evolve_notes.md").open("a") as notes:
        notes.write(f"smoke says: {(done.stdout + done.stderr)[-300:]}\n")


def git_reads() -> None:
    """Plain git on the archive; what it says is kept in the notes."""
    git = ["git", "-C", str(CANDIDATE)]
    log = subprocess.run([*git, "log", "--oneline", "--all"], capture_output=True, text=True)
    status = subprocess.run([*git, "status", "--short"], capture_output=True, text=True)
    with (CANDIDATE / "evolve_notes.md").open("a") as notes:
        notes.write(f"log: {log.stdout}{log.stderr}\nstatus: {status.stdout}{status.stderr}\n")


def other_base() -> None:
    """From another harness than the one that stands there, by git."""
    subprocess.run(
        ["git", "-C", str(CANDIDATE), "checkout", "-q", "-f", "--detach", "r000-seed"], check=True
    )
    edit()
    declare("r000-seed")
    report()


BORROWED = "\n".join(
    f"def borrowed_{n}(text: str) -> str:\n    return text.strip() + {str(n)!r}\n"
    for n in range(12)
)


def invent() -> None:
    """A file that another may take over."""
    (CANDIDATE / "borrowed.py").write_text(BORROWED)


def holder() -> str:
    """The archived harness that has the file."""
    found = sorted(ARCHIVE.glob("harnesses/*/borrowed.py"))
    return found[0].parent.name


def adopt() -> None:
    source = ARCHIVE / "harnesses" / holder() / "borrowed.py"
    (CANDIDATE / "borrowed.py").write_text(source.read_text())


def adopt_and_say() -> None:
    adopt()
    declare("r000-seed", ((holder(), "borrowed functions"),))


def from_seed() -> None:
    seed = ARCHIVE / "harnesses" / "r000-seed"
    for path in CANDIDATE.iterdir():
        if path.is_file():
            path.unlink()
    for path in seed.iterdir():
        (CANDIDATE / path.name).write_bytes(path.read_bytes())


def declare_seed() -> None:
    declare("r000-seed")


def false_base() -> None:
    """Says that the seed's copy comes from a harness that has quite some code more."""
    declare("r001-k6")


def unknown_base() -> None:
    declare("r099-k1")


def rewrite() -> None:
    """So different from the seed that nothing of it is left."""
    path = CANDIDATE / "harness.py"
    lines = [f"VALUE_{n} = {n * n}" for n in range(60)]
    path.write_text(path.read_text() + "\n" + "\n".join(lines) + "\n")


def broken() -> None:
    with (CANDIDATE / "harness.py").open("a") as file:
        file.write("\ndef broken(:\n")


def mended() -> None:
    path = CANDIDATE / "harness.py"
    path.write_text(path.read_text().replace("\ndef broken(:\n", ""))


def idle() -> None:
    print("I have done everything you asked for.")


def fail() -> None:
    sys.exit(3)


def hang() -> None:
    while True:
        time.sleep(60)


def flood() -> None:
    block = b"x" * 2**20
    for number in range(100_000):
        (WORK / f"flood-{number}").write_bytes(block)


def outside() -> None:
    (WORK / "elsewhere.txt").write_text("x")
    for place in ("/coevo/archive/INDEX.md", "/usr/share/x", "/coevo/session/check"):
        try:
            Path(place).write_text("x")
        except OSError as error:
            print(f"{place}: {error}")
        else:
            print(f"{place}: WRITTEN")


def commit() -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run(["git", "-C", str(CANDIDATE), "add", "-A"], check=True)
    subprocess.run(
        ["git", "-C", str(CANDIDATE), *who, "commit", "-q", "-m", "my own commit"], check=True
    )


def leave() -> None:
    """A grandchild in a session of its own, which no process group reaches."""
    script = "sleep 3600 & exec sleep 3601"
    subprocess.Popen(["setsid", "sh", "-c", script], start_new_session=True)
    time.sleep(0.3)


def many() -> None:
    for _ in range(500):
        subprocess.Popen(["sleep", "3602"])
    time.sleep(30)


def hidden() -> None:
    (CANDIDATE / ".agent").mkdir()
    (CANDIDATE / ".agent" / "cache").write_bytes(b"\0\1")


def link() -> None:
    (CANDIDATE / "passwd").symlink_to("/etc/passwd")


def deep() -> None:
    """Folders so deep that whoever walks or removes them by recursion fails."""
    here = Path.cwd()
    os.chdir(CANDIDATE / ".git" / "refs")
    for _ in range(1500):
        os.mkdir("d")  # noqa: PTH102 - the path as a whole would be too long
        os.chdir("d")
    os.chdir(here)


def no_text() -> None:
    """A file whose name is neither text nor one line."""
    os.close(os.open(bytes(WORK) + b"/not\xfftext\nCoevo-Kind: pair", os.O_CREAT | os.O_WRONLY))


def moved() -> None:
    """A link to a folder of the engine's machine instead of the candidate."""
    CANDIDATE.rename(WORK / "old")
    CANDIDATE.symlink_to("/etc")


def look_around() -> None:
    """Everything that can be read from here goes into the output, by name and by content."""
    for top in sorted(Path("/").iterdir()):
        print(f"top {top}")
    for folder in (
        ARCHIVE,
        WORK,
        Path("/coevo/session"),
        Path("/tmp"),
        Path("/home"),
        Path("/etc"),
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and ".git/" not in str(path):
                print(path, path.read_text(errors="replace"))
    for path in Path("/proc").glob("[0-9]*/*"):
        if path.name in ("environ", "cmdline"):
            print(path, path.read_bytes())


def second() -> None:
    time.sleep(1)


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    slot = f"{SLOT}-repair" if PROMPT.startswith("# Repair") else SLOT
    for name in plan.get(slot, []):
        print(f"{slot}: {name}", flush=True)
        globals()[name]()


if __name__ == "__main__":
    main()
