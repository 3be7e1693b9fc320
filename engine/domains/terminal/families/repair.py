"""Code repair in a small repository: find what people complain about, and break nothing else."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from engine.domains.terminal.families.repair_bugs import ARGUMENTS, BUGS, CONSTANTS, Bug
from engine.domains.terminal.problem import Family, Problem

_CALLS = 24
_TELLING = 4
_DRAWN = 300
"""Calls of each function that are checked: those that show what is broken are found among the
first so many that are drawn."""

RUNNER = """
import importlib, json, sys

sys.path.insert(0, sys.argv[1])
module, name = sys.argv[2].split(".")
function = getattr(importlib.import_module(module), name)
results = []
for arguments in json.load(sys.stdin):
    try:
        results.append(function(*arguments))
    except Exception as error:
        results.append({"raised": type(error).__name__})
print(json.dumps(results))
"""

GRADER = """
import json, subprocess
from pathlib import Path

path = Path("/grader/facts.json")
facts = json.loads(path.read_text())
path.unlink()  # the code below must not find what is expected of it


def results(name, calls):
    command = ["python3", "-I", "-c", RUNNER, "/app", name]
    given = json.dumps([call["arguments"] for call in calls])
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=10)
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return None


mended, spoilt = 0, 0
for name, calls in facts["calls"].items():
    good = results(name, calls) == [call["result"] for call in calls]
    print(name + ":", "right" if good else "wrong")
    if name in facts["broken"]:
        mended += good
    else:
        spoilt += not good
print(json.dumps({"score": 0.0 if spoilt else mended / len(facts["broken"])}))
"""

CHECK = '''\
"""Runs the examples: python3 check.py"""

import importlib
import json
from pathlib import Path

wrong = 0
for example in json.loads(Path(__file__).with_name("examples.json").read_text()):
    module, name = example["function"].split(".")
    function = getattr(importlib.import_module(module), name)
    try:
        result = function(*example["arguments"])
    except Exception as error:
        result = {"raised": type(error).__name__}
    if result != example["result"]:
        wrong += 1
        print(f"{example['function']}(*{example['arguments']}) is {result}, "
              f"should be {example['result']}")
print("all right" if not wrong else f"{wrong} wrong")
raise SystemExit(wrong > 0)
'''

INSTRUCTION = """\
/app is a small repository of Python modules; each function's description says what is right. \
People complain:
{complaints}

Mend what is behind the complaints, and change nothing else of what the functions do. \
`python3 check.py` runs some examples{hint}."""


class Call(NamedTuple):
    arguments: list[Any]
    right: Any
    now: Any
    """Results in the right code and in the repository as it is; ``{"raised": name}`` for errors."""


def make(rng: random.Random, difficulty: int) -> Problem:
    """More bugs in more modules with the difficulty; from 3 on no example shows one."""
    bugs = _bugs(rng, 1 + difficulty // 2)
    spoilt = {bug.module for bug in bugs}
    others = sorted({bug.module for bug in BUGS} - spoilt)
    modules = sorted(spoilt | set(rng.sample(others, 1 + difficulty)))
    right = {module: _source(rng, module) for module in modules}
    now = dict(right)
    for bug in bugs:
        assert now[bug.module].count(bug.right) == 1, bug
        now[bug.module] = now[bug.module].replace(bug.right, bug.wrong)
    calls = {
        name: _calls(rng, name, right[name.split(".")[0]], now[name.split(".")[0]])
        for name in ARGUMENTS
        if name.split(".")[0] in modules
    }
    broken = [name for name, all_ in calls.items() if any(c.right != c.now for c in all_)]
    complaints = [f"- {bug.symptom}" for bug in bugs]
    if difficulty == 1:
        complaints[0] += f" (It is about {bugs[0].module}.py.)"
    shown = {name: _examples(all_, telling=difficulty < 3) for name, all_ in calls.items()}
    return Problem(
        instruction=INSTRUCTION.format(
            complaints="\n".join(complaints),
            hint="" if difficulty < 3 else ", which are all right already",
        ),
        files=_files(now, shown),
        grader=f"RUNNER = {RUNNER!r}\n{GRADER}",
        facts={"broken": broken, "calls": {name: _json(all_) for name, all_ in calls.items()}},
        solution=_solution({module: right[module] for module in spoilt}),
    )


def _bugs(rng: random.Random, count: int) -> list[Bug]:
    """Bugs of different functions, so that each is mended or not by itself."""
    chosen: dict[tuple[str, str], Bug] = {}
    for bug in rng.sample(BUGS, len(BUGS)):
        chosen.setdefault((bug.module, bug.function), bug)
    return list(chosen.values())[:count]


def _source(rng: random.Random, module: str) -> str:
    text = resources.files(__package__).joinpath("repository", f"{module}.py").read_text("utf-8")
    for name, (low, high) in CONSTANTS.get(module, {}).items():
        text = re.sub(rf"^{name} = \d+$", f"{name} = {rng.randint(low, high)}", text, flags=re.M)
    return text


def _calls(rng: random.Random, name: str, right: str, now: str) -> list[Call]:
    """Calls of a function, enough of them telling where the two sources differ by it."""
    function = name.split(".")[1]
    size = int(found[1]) if (found := re.search(r"^[A-Z_]+ = (\d+)$", right, re.M)) else 0
    good, bad = _namespace(right)[function], _namespace(now)[function]
    same: list[Call] = []
    telling: list[Call] = []
    for _ in range(_DRAWN if right != now else _CALLS):
        arguments = ARGUMENTS[name](rng, size)
        call = Call(arguments, _result(good, arguments), _result(bad, arguments))
        (same if call.right == call.now else telling).append(call)
        if len(same) >= _CALLS and len(telling) >= _TELLING:
            break
    return telling[:_TELLING] + same[:_CALLS]


def _examples(calls: list[Call], telling: bool) -> list[Call]:
    """Three that hold already, and one that doesn't if the repository is to tell what is wrong."""
    holding = [call for call in calls if call.right == call.now]
    return holding[:3] + [call for call in calls if call not in holding][: int(telling)]


def _namespace(source: str) -> dict[str, Any]:
    """What our own source defines."""
    names: dict[str, Any] = {}
    exec(source, names)
    return names


def _result(function: Any, arguments: list[Any]) -> Any:
    """As it comes through JSON, or the name of the error."""
    try:
        return json.loads(json.dumps(function(*json.loads(json.dumps(arguments)))))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return {"raised": type(error).__name__}


def _json(calls: list[Call]) -> list[dict[str, Any]]:
    return [{"arguments": call.arguments, "result": call.right} for call in calls]


def _files(sources: Mapping[str, str], shown: Mapping[str, list[Call]]) -> dict[str, bytes]:
    examples = [
        {"function": name, **each} for name, calls in shown.items() for each in _json(calls)
    ]
    listed = "\n".join(f"- {name}.py" for name in sources)
    files = {f"{name}.py": text for name, text in sources.items()}
    files |= {"check.py": CHECK, "examples.json": json.dumps(examples, indent=1)}
    files["README.md"] = f"Small modules that have nothing to do with each other:\n\n{listed}\n"
    return {name: text.encode() for name, text in files.items()}


def _solution(right: Mapping[str, str]) -> str:
    texts = {f"{module}.py": text for module, text in sorted(right.items())}
    return (
        "python3 - <<'PY'\nfrom pathlib import Path\n"
        f"for name, text in {texts!r}.items():\n    Path(name).write_text(text)\nPY"
    )


FAMILY = Family("repair", make)
