"""The checks: what each gate refuses, and that a good offspring passes them all."""

from __future__ import annotations

import asyncio
import base64
import json
import random

import pytest
from recipe_cases import SEED, task, with_recipes

from engine.checks import CheckResult, check, kept_entry_points, static
from engine.domains import Task
from engine.domains.smart_home import DOMAIN
from engine.leaks import LONG, Forbidden, leaks, references
from kernel.host import WorkerPool

INSTRUCTION = "Set the brightness of the corridor lamp to 37 and open the pantry blinds."
GOLD = "'''corridor.lamp.set_brightness(37),pantry.blinds.open(),'''"
FORBIDDEN = Forbidden.of(["home7_multi_31", "a1"], [INSTRUCTION, GOLD, "Open it."])
NOTHING = Forbidden()


def checked(
    files, base=SEED, budget: int | None = 500, duplicate: str | None = None
) -> CheckResult:
    async def main() -> CheckResult:
        async with WorkerPool() as pool:
            return await check(
                files,
                base,
                domain=DOMAIN,
                practice=DOMAIN.practice(task(), "Turn on the light in the kitchen."),
                forbidden=FORBIDDEN,
                line_budget=budget,
                duplicate_of=duplicate,
                pool=pool,
            )

    return asyncio.run(main())


def changed(**files: str | bytes) -> dict[str, bytes]:
    """The seed with files replaced; ``__`` stands for a dot or, doubled, a folder."""
    new = dict(SEED)
    for name, content in files.items():
        new[name.replace("__", ".")] = content.encode() if isinstance(content, str) else content
    return new


def edited(old: str, new: str) -> dict[str, bytes]:
    text = SEED["harness.py"].decode()
    assert old in text
    return changed(harness__py=text.replace(old, new))


def gates(files, base=SEED) -> set[str]:
    return {reason.partition(":")[0] for reason in static(files, base, FORBIDDEN)}


def test_a_good_offspring_passes():
    result = checked(with_recipes("verify_commands", "retry_malformed"))
    assert result.ok and result.line == "passed" and result.added > 50


def test_the_seed_itself_is_empty_but_for_notes():
    files = changed(evolve_notes__md="I thought about it.\n", evolution_report__md="Nothing.\n")
    result = checked(files)
    assert result.reasons == ("empty: nothing changed but notes",)


def test_budget_and_duplicates():
    files = with_recipes("retry_malformed")
    added = checked(files).added
    assert checked(files, budget=added).ok
    assert checked(files, budget=added - 1).reasons == (
        f"budget: {added} added lines, {added - 1} are allowed",
    )
    assert checked(files, duplicate="abc123").reasons == ("duplicate: of abc123",)
    assert checked(files, budget=None).ok


@pytest.mark.parametrize(
    ("files", "gate"),
    [
        (changed(harness__py="def run(:\n"), "syntax"),
        (changed(examples__json="[1,"), "syntax"),
        (changed(more__py="import numpy\n"), "imports"),
        (changed(more__py="from engine.archive import Archive\n"), "imports"),
        (changed(more__py="from r001_k2 import harness\n"), "imports"),
        (changed(requirements__txt="torch\n"), "files"),
        (changed(weights__bin="text"), "files"),
        (changed(more__py=b"\x00\x01"), "files"),
        (changed(more__py="x = 1  #" + "y" * 2100 + "\n"), "files"),
        ({**SEED, "../out.py": b"x = 1\n"}, "path"),
        ({**SEED, "/etc/out.py": b"x = 1\n"}, "path"),
        ({name: data for name, data in SEED.items() if name != "harness.py"}, "files"),
    ],
)
def test_static_gates(files, gate):
    assert gate in gates(files)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (changed(more__json="[" * 100_000), "syntax: more.json: nested too deep"),
        (changed(more__json='{"a":' * 100_000), "syntax: more.json: nested too deep"),
        (changed(more__py="x = " + "-" * 100_000 + "1\n"), "syntax: more.py: nested too deep"),
        (changed(more__py="x = " + "1+\\\n" * 20_000 + "1\n"), "syntax: more.py: nested too deep"),
        (changed(more__py="x" + ".y" * 50_000), "syntax: more.py: nested too deep"),
        (
            changed(examples__json="[" + "1,\n" * 200_000 + "1]"),
            "files: examples.json is larger than 524288 bytes",
        ),
        (
            changed(evolve_notes__md="x\n" * 300_000),
            "files: evolve_notes.md is larger than 524288 bytes",
        ),
        (
            changed(**{f"n{n}__txt": "x\n" * 250_000 for n in range(5)}),
            "files: new and changed files are larger than 2097152 bytes in all",
        ),
    ],
    ids=range(8),
)
def test_hostile_source_is_a_reason_and_no_crash(files, reason):
    assert reason in list(static(files, SEED, FORBIDDEN))
    assert kept_entry_points(DOMAIN, {"harness.py": files.get("more.py", b"")}) == {}


def test_text_in_a_sum_thousands_deep_is_found():
    letters = " +\n".join(repr(letter) for letter in INSTRUCTION)
    padding = "'' +\n" * 2_000
    body = f"X = (\n{padding}{letters}\n)\n"
    assert "leak: more.py holds text of a validation task" in list(
        static(changed(more__py=body), SEED, FORBIDDEN)
    )


def test_own_modules_kernel_and_python_may_be_imported():
    files = changed(more__py="import json\nfrom kernel.contract import ToolCall\nimport harness\n")
    assert gates(files) == set()


@pytest.mark.parametrize(
    ("files", "gate"),
    [
        (
            edited(
                "def build_agent(settings: dict[str, Any], client: Any)", "def build_agent(client)"
            ),
            "build_agent",
        ),
        (edited("    async def step(self)", "    async def stride(self)"), "step"),
        (
            edited("async def run(instruction: str, model: Any, world: Any)", "async def run(a)"),
            "run",
        ),
        (edited("        self.turns += 1\n", "        raise KeyError('x')\n"), "KeyError"),
        (edited("        self.turns += 1\n", "        open('/etc/passwd', 'w')\n"), "Error"),
    ],
)
def test_contract_and_smoke(files, gate):
    result = checked(files)
    assert not result.ok
    assert all(reason.startswith("smoke: ") for reason in result.reasons)
    assert gate in result.line


def test_entry_points_are_asked_for_where_the_base_has_them():
    assert set(kept_entry_points(DOMAIN, SEED)) == set(DOMAIN.entry_points)
    plain = {"harness.py": b"async def run(instruction, model, world): ...\n"}
    assert kept_entry_points(DOMAIN, plain) == {}
    elsewhere = {"harness.py": b"from agent import build_agent\n"}
    assert set(kept_entry_points(DOMAIN, elsewhere)) == {"build_agent"}


@pytest.mark.parametrize(
    "body",
    [
        f"X = {INSTRUCTION!r}\n",
        f"X = {INSTRUCTION.upper()!r}\n",
        f"X = {INSTRUCTION[:40]!r} + {INSTRUCTION[40:]!r}\n",
        f"X = ({INSTRUCTION[:40]!r}\n     {INSTRUCTION[40:]!r})\n",
        f"X = ''.join([{INSTRUCTION[:40]!r}, {INSTRUCTION[40:]!r}])\n",
        f"# {INSTRUCTION}\n",
        f"X = {INSTRUCTION[5 : 5 + LONG + 4]!r}\n",
        "X = 'corridor.lamp.set_brightness(37),pantry.blinds.open()'\n",
        "SKIP = {'home7_multi_31'}\n",
    ],
)
def test_leaks_are_refused(body):
    reasons = list(static(changed(more__py=body), SEED, FORBIDDEN))
    assert reasons and all(reason.startswith("leak: more.py holds") for reason in reasons)
    assert not any("corridor" in reason or "home7" in reason for reason in reasons)


class Attribution:
    """A domain whose reference answer is nested beside a log, which is the world's."""

    def practice(self, task: Task, instruction: str) -> Task:
        return Task("practice", instruction, {}, {"log": task.private["log"]}, content="")


LOGGED = Task(
    "Hand-Crafted/12",
    "Which agent failed, and at which of its steps?",
    {},
    {
        "log": [{"agent": "Surfer", "said": "Traceback (most recent call last): no such element"}],
        "answer": {
            "who": ["Orchestrator", "WebSurfer", "FileSurfer"],
            "why": "It read the 2019 table although 2021 was asked for.",
        },
    },
    content="a log",
)


def test_reference_answers_of_any_domain_are_what_practice_leaves_out():
    assert list(references(Attribution(), LOGGED)) == [
        json.dumps(LOGGED.private["answer"]),
        '["Orchestrator", "WebSurfer", "FileSurfer"]',
        "Orchestrator",
        "WebSurfer",
        "FileSurfer",
        "It read the 2019 table although 2021 was asked for.",
    ]
    own = task()
    assert list(references(DOMAIN, own)) == [
        value for key, value in own.private.items() if key != "home"
    ]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("X = 'it read the 2019 table although 2021 was asked'\n", ["text of a validation task"]),
        ('X = ["Orchestrator", "WebSurfer", "FileSurfer"]\n', ["text of a validation task"]),
        ("X = 'Which agent failed, and at which of its steps?'\n", ["text of a validation task"]),
        ("SKIP = {'Hand-Crafted/12'}\n", ["1 task id(s)"]),
        ("SKIP = {'Hand-Crafted/123', 'x.Hand-Crafted/12'}\n", []),
        ("LIMIT = 2048\n", []),
        ("SKIP = {70012345}\n", ["1 task id(s)"]),
        ("E = 'Traceback (most recent call last): no such element'\n", []),
    ],
)
def test_leaks_of_another_domain(body, found):
    others = [Task(name, "Short?", {}, {"log": []}, content=name) for name in ("2048", "70012345")]
    forbidden = Forbidden.of_tasks(Attribution(), others, [LOGGED])
    said = list(leaks(changed(more__py=body), SEED, forbidden))
    assert said == [f"more.py holds {what}" for what in found]


def test_wording_that_training_tasks_share_is_no_leak():
    said = "Answer in one line and name your source: "
    train, validation = (
        Task(
            f"task-{n}", said + f"how tall is the {thing} of the town of Lorch?", {}, {"log": []}, n
        )
        for n, thing in (("1", "tower"), ("2", "bridge"))
    )
    forbidden = Forbidden.of_tasks(Attribution(), [train], [validation])
    common = changed(more__py=f"X = {said!r}\n")
    assert list(leaks(common, SEED, forbidden)) == []
    own = changed(more__py=f"X = {validation.instruction[30:]!r}\n")
    assert list(leaks(own, SEED, forbidden)) == ["more.py holds text of a validation task"]


HIDDEN = INSTRUCTION.encode("utf-16-be").hex("-", 2).split("-")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("more.py", b"# coding: utf-7\nX = '+AFMAZQB0-'\n", "declares the encoding utf-7"),
        ("more.py", b"\r# coding: utf-7\nX = '+AFMAZQB0-'\n", "declares the encoding utf-7"),
        ("more.py", b"#!python\n# coding=latin-1\nX = 1\n", "declares the encoding iso8859-1"),
        ("more.py", b"# vim: fileencoding=unicode_escape\n", "the encoding unicode-escape"),
        ("more.py", "X = 'é'\n".encode("latin-1"), "more.py is binary"),
        ("evolve_notes.md", INSTRUCTION.encode("utf-16"), "evolve_notes.md is not UTF-8 text"),
    ],
)
def test_files_in_other_encodings_hide_nothing(name, content, problem):
    files = {**changed(other__py="Y = 1\n"), name: content}
    reasons = [r for r in static(files, SEED, FORBIDDEN) if r.startswith("files: ")]
    assert len(reasons) == 1 and problem in reasons[0]


@pytest.mark.parametrize(
    "content",
    [b"# coding: utf-8\nX = 1\n", b"# -*- coding: UTF8 -*-\nX = 1\n", b"\xef\xbb\xbfX = 1\n"],
)
def test_utf8_may_be_declared(content):
    assert gates(changed(more__py=content)) == set()


def test_a_leak_in_data_is_refused_and_common_words_are_not():
    rows = json.loads(SEED["examples.json"])
    rows.append({"instruction": INSTRUCTION, "commands": "{error_input}"})
    assert gates(changed(examples__json=json.dumps(rows, indent=1))) == {"leak"}
    escaped = "".join(f"\\u{unit}" for unit in HIDDEN)
    assert gates(changed(examples__json=f'["{escaped}"]')) == {"leak"}
    assert gates(changed(more__py="X = 'Open it. Set the brightness of the lamp.'\n")) == set()
    assert gates(changed(more__py="a1 = 'a1'\n")) == set()


def test_what_the_base_holds_is_no_leak():
    base = changed(more__py=f"X = {INSTRUCTION!r}\n")
    again = {**base, "more.py": f"X = {INSTRUCTION!r}\nY = 1\n".encode()}
    assert gates(again, base) == set()


def test_tables_and_blobs_are_refused():
    rng = random.Random(0)
    blob = base64.b64encode(rng.randbytes(300)).decode()
    table = "\n".join(f"    'request number {n}': 'command {n}'," for n in range(60))
    found = list(leaks(changed(more__py=f"T = {{\n{table}\n}}\n"), SEED, NOTHING))
    assert found == ["more.py holds a literal table of 120 items"]
    assert list(leaks(changed(more__py=f"B = '{blob}'\n"), SEED, NOTHING)) == [
        "more.py holds an encoded blob"
    ]
    lines = json.dumps([[n] for n in range(200)])
    assert list(leaks(changed(table__json=lines), SEED, NOTHING)) == [
        "table.json holds a literal table of 200 items"
    ]
    small = "V = ['on', 'off', 'up']\n"
    assert list(leaks(changed(more__py=small), SEED, NOTHING)) == []


def test_the_catalogue_itself_is_clean():
    for name in ("relative_changes", "split_request", "accept_syntaxes", "system_wording"):
        assert gates(with_recipes(name)) == set()
