"""What is read from a session's folder: kinship by lines, declaration, report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.editors import NOTES, REPORT
from engine.editors.sessions import declaration, report
from engine.editors.sessions.kinship import adopted, nearer
from engine.editors.sessions.order import Order, early
from engine.view import HarnessSummary, find

Files = Mapping[str, bytes]


def code(*blocks: str) -> bytes:
    """Blocks of six telling lines each, by name."""
    lines = [f"{name}_{n} = compute_{name}({n}, 'argument')" for name in blocks for n in range(6)]
    return "\n".join(lines).encode() + b"\n"


SEED: Files = {"harness.py": code("a", "b")}
RETRY: Files = {"harness.py": code("a", "b", "retry")}
CHOOSE: Files = {"harness.py": code("a", "b"), "choose.py": code("choose", "more")}
ARCHIVE = {"seed": SEED, "retry": RETRY, "choose": CHOOSE}


def found(files: Files, base: str, *declared: str) -> dict[str, str]:
    others = {key: each for key, each in ARCHIVE.items() if key != base}
    return dict(adopted(files, ARCHIVE[base], declared, others))


def test_code_taken_over_word_for_word_is_found() -> None:
    files = {**RETRY, "pick.py": code("choose", "own")}
    assert found(files, "retry") == {"choose": "pick.py"}
    assert found(files, "retry", "choose") == {}


def test_what_the_base_has_or_nobody_has_is_no_adoption() -> None:
    assert found({"harness.py": code("a", "b", "own")}, "seed") == {}
    assert found({"moved.py": code("a", "b")}, "seed") == {}
    assert found(RETRY, "retry") == {}


def test_a_few_lines_alike_are_an_accident() -> None:
    few = b"\n".join(code("retry").splitlines()[:4])
    assert found({"harness.py": code("a", "b") + few}, "seed") == {}


def test_the_one_that_holds_most_of_it_is_named_and_the_oldest_of_equals() -> None:
    both = {"harness.py": code("a", "b", "retry", "choose", "more")}
    assert found(both, "seed") == {"retry": "harness.py", "choose": "harness.py"}
    archive = {"old": CHOOSE, "young": CHOOSE, "whole": {"x.py": code("choose", "more", "retry")}}
    assert dict(adopted(both, SEED, (), archive)) == {"whole": "harness.py"}
    del archive["whole"]
    assert dict(adopted(both, SEED, (), archive)) == {"old": "harness.py"}


def test_indentation_and_blank_lines_hide_nothing() -> None:
    hidden = b"\n\n".join(b"    " + line for line in code("choose").splitlines())
    assert found({**SEED, "x.py": hidden}, "seed") == {"choose": "x.py"}


def test_a_base_may_be_extended_cut_and_rewritten() -> None:
    others = {"seed": SEED, "choose": CHOOSE}
    assert nearer({"harness.py": code("a", "b", "retry", "new")}, RETRY, others) is None
    assert nearer({"harness.py": code("a", "b", "other")}, RETRY, others) is None
    assert nearer({"harness.py": code("a", "b", "retry", "choose", "more")}, RETRY, others) is None


def test_a_base_whose_code_is_gone_is_a_false_one() -> None:
    grown = {"harness.py": code("a", "b", *(f"block{n}" for n in range(8)))}
    files = {"harness.py": code("a", "b") + b"own_line = 1\n"}
    assert nearer(files, grown, {"seed": SEED, "choose": CHOOSE}) == "seed"
    assert nearer(files, SEED, {"grown": grown}) is None
    assert nearer(files, SEED, {}) is None


# --- the declaration --------------------------------------------------------------------------

DIAGNOSIS = {
    "baseline": "0.3", "addressable": "half", "files": ["harness.py"], "mechanisms": "retry",
    "expected": "+0.1", "risks": "none",
}  # fmt: skip
ENTRIES = (
    HarnessSummary("1" * 40, 0, "seed", None, "Seed"),
    HarnessSummary("12" + "3" * 38, 1, "k1", "1" * 40, "One"),
    HarnessSummary("4" * 40, 1, "k2", "1" * 40, "Two", rejected=True),
)


def test_a_whole_declaration_is_read(tmp_path: Path) -> None:
    facts = {
        "base": "r000-seed",
        "adopts": [{"harness": "r001-k1", "what": "retry"}],
        "diagnosis": DIAGNOSIS,
    }
    (tmp_path / declaration.FILE).write_text(json.dumps(facts))
    read = declaration.read(tmp_path)
    assert read.declared is not None and read.problem == ""
    assert list(declaration.problems(read.declared, ENTRIES)) == []


def test_the_example_in_the_prompt_is_a_declaration() -> None:
    declaration.Declaration.model_validate(json.loads(declaration.EXAMPLE))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is no JSON"),
        ("[]", "the whole"),
        ("[" * 100_000, "is no JSON"),
        ('{"base": "x"}', "diagnosis: Field required"),
        (json.dumps({"base": "x", "diagnosis": {**DIAGNOSIS, "risks": ""}}), "diagnosis.risks"),
        (json.dumps({"base": "", "diagnosis": DIAGNOSIS}), "base: "),
        ("x" * 300_000, "no plain file below"),
    ],
)
def test_a_bad_declaration_says_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / declaration.FILE).write_text(text)
    read = declaration.read(tmp_path)
    assert read.declared is None
    assert read.problem.startswith("declaration: ") and problem in read.problem


def test_links_and_pipes_are_no_declaration(tmp_path: Path) -> None:
    assert "is missing" in declaration.read(tmp_path).problem
    (tmp_path / declaration.FILE).symlink_to("/etc/hostname")
    assert "no plain file" in declaration.read(tmp_path).problem
    (tmp_path / declaration.FILE).unlink()
    os.mkfifo(tmp_path / declaration.FILE)
    assert "no plain file" in declaration.read(tmp_path).problem


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("r000-seed", "r000-seed"),
        ("R001-K1 ", "r001-k1"),
        ("harness/r001-k1", "r001-k1"),
        ("rejected/r001-k2", "r001-k2"),
        ("1" * 40, "r000-seed"),
        ("1233333", "r001-k1"),
        ("123333", None),
        ("r009-k1", None),
        ("", None),
    ],
)
def test_harnesses_are_named_by_label_or_hash(name: str, label: str | None) -> None:
    entry = find(name, ENTRIES)
    assert (entry and entry.label) == label


def test_rejected_and_unknown_bases_are_refused() -> None:
    def said(base: str, adopts: str) -> list[str]:
        facts = {"base": base, "adopts": [{"harness": adopts, "what": "x"}]}
        declared = declaration.Declaration.model_validate({**facts, "diagnosis": DIAGNOSIS})
        return [text.partition(":")[0] for text in declaration.problems(declared, ENTRIES)]

    assert said("r001-k2", "r001-k2") == ["base"], "rejected ones may be adopted from"
    assert said("r007-k1", "r007-k1") == ["base", "adopts"]


# --- notes and report -------------------------------------------------------------------------

WHOLE = (
    b"Base r000-seed. Changed files: harness.py. Mechanism: retry. Expected effect: more. "
    b"Checks: smoke OK. Assumptions: none. Risks: few.\n"
)


def said(notes: bytes, text: bytes) -> list[str]:
    files = {**RETRY, NOTES: notes, REPORT: text}
    return list(report.problems(files, {**SEED, NOTES: b"HARNESS DIAGNOSIS old", REPORT: WHOLE}))


def test_a_whole_report_has_no_problem() -> None:
    assert said(b"# harness diagnosis\nall is well", WHOLE + b"new") == []


def test_the_bases_own_notes_and_report_do_not_count() -> None:
    assert [each.partition(":")[0] for each in said(b"HARNESS DIAGNOSIS old", WHOLE)] == [
        "diagnosis",
        "report",
    ]


def test_missing_parts_and_unnamed_files_are_named() -> None:
    found = said(b"HARNESS DIAGNOSIS", b"Base: x. Mechanism: y.")
    lacking = ["changed files", "expected effect", "checks that were run", "assumptions", "risks"]
    assert found == [
        f"report: {REPORT} doesn't speak of {', '.join(lacking)}",
        f"report: {REPORT} doesn't name the changed files harness.py",
    ]


def rooms(folder: Path) -> tuple[Path, Path]:
    candidate = folder / "candidate"
    (candidate / ".git").mkdir(parents=True)
    (candidate / ".git" / "HEAD").write_text("1\n")
    (candidate / "harness.py").write_text("x = 1\n")
    (candidate / NOTES).write_text("HARNESS DIAGNOSIS of an earlier change\n")
    return folder, candidate


def edit_code(work: Path, candidate: Path) -> None:
    (candidate / "harness.py").write_text("x = 12\n")


def new_file(work: Path, candidate: Path) -> None:
    (candidate / "more.py").write_text("")


def notes(work: Path, candidate: Path) -> None:
    (candidate / NOTES).write_text("harness diagnosis: they forget.\n")


def declared(work: Path, candidate: Path) -> None:
    (work / declaration.FILE).write_text(json.dumps({"base": "r1", "diagnosis": DIAGNOSIS}))


def other_base(work: Path, candidate: Path) -> None:
    (candidate / ".git" / "HEAD").write_text("2\n")
    edit_code(work, candidate)


def other_files(work: Path, candidate: Path) -> None:
    (candidate / REPORT).write_text("r")
    (candidate / "__pycache__").mkdir()
    (candidate / "__pycache__" / "x.pyc").write_text("")
    os.mkfifo(candidate / ".pipe")


def bad_notes(work: Path, candidate: Path) -> None:
    (candidate / NOTES).unlink()
    os.mkfifo(candidate / NOTES)
    (work / declaration.FILE).symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("steps", "edited", "diagnosed", "remarked"),
    [
        ((edit_code, notes), 1, 2, True),
        ((new_file, declared), 1, 2, True),
        ((notes, edit_code), 2, 1, False),
        ((declared, new_file), 2, 1, False),
        ((other_base, notes), None, 2, False),
        ((other_base, new_file, notes), 2, 3, True),
        ((other_files, notes), None, 2, False),
        ((edit_code, bad_notes), 1, None, True),
    ],
)
def test_the_order_of_diagnosis_and_edit_is_seen_from_outside(
    steps: tuple[Callable[[Path, Path], None], ...],
    edited: float | None,
    diagnosed: float | None,
    remarked: bool,
    tmp_path: Path,
) -> None:
    work, candidate = rooms(tmp_path)
    seen = Order(work, candidate)
    seen.look(0)
    assert (seen.edited_s, seen.diagnosed_s) == (None, None)
    for number, step in enumerate(steps, start=1):
        step(work, candidate)
        seen.look(number)
        seen.look(number + 0.5)
    assert (seen.edited_s, seen.diagnosed_s) == (edited, diagnosed)
    times = [None if each is None else each * 10.0 for each in (edited, diagnosed)]
    assert bool(early(*times, 90.0)) is remarked


def test_what_is_said_of_an_early_edit() -> None:
    assert early(12.2, 40.0, 50.0) == (
        "it changed code before its diagnosis: after 12 s, and stated it after 40 s"
    )
    assert early(12.2, None, 50.0).endswith("after 12 s, and stated none")
    assert early(12.2, 14.0, 50.0) == "", "one piece of work"
    assert early(49.0, None, 50.0) == early(None, None, 50.0) == ""
