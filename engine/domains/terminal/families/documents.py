"""Questions over a corpus of annual reports whose answers are numbers computed across documents:
units, currencies, corrections that came later, a register that changes by year."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from engine.domains.terminal.families.documents_corpus import SECTORS, Corpus, Spot, draw
from engine.domains.terminal.families.documents_solution import SOLUTION
from engine.domains.terminal.families.words import sentence
from engine.domains.terminal.problem import Family, Problem

GRADER = """
import json
from pathlib import Path

facts = json.loads(Path("/grader/facts.json").read_text())
try:
    given = json.loads(Path("/app/answers.json").read_text())
except (OSError, ValueError) as error:
    given = {}
    print("answers.json can't be read:", error)
right = 0
for number, wanted in facts["answers"].items():
    value = given.get(number) if isinstance(given, dict) else None
    number_given = isinstance(value, (int, float)) and not isinstance(value, bool)
    good = number_given and abs(value - wanted) <= 0.06
    right += good
    print("question", number + ":", "right" if good else "wrong" if number_given else "no number")
print(json.dumps({"score": right / len(facts["answers"])}))
"""

ASKED = {
    "total": "the total revenue of all companies of the {sector} sector in {year}, in thousand EUR",
    "growth": "the growth of the {metric} of {company} from {before} to {year}, in percent",
    "margin": "the margin of {company} in {year}, in percent",
    "head": "the revenue per employee of {company} in {year}, in thousand EUR",
    "best": "the largest margin of any company of the {sector} sector in {year}, in percent",
    "gap": "how many more employees {company} had at the end of {year} than {other} (negative if "
    "fewer)",
}
METRICS = {"revenue": "revenue", "costs": "costs", "staff": "number of employees"}


def _question(rng: random.Random, corpus: Corpus, kind: str) -> dict[str, Any]:
    company, other = rng.sample(sorted(corpus.currency), 2)
    before, year = sorted(rng.sample(corpus.years, 2))
    sector = corpus.sectors[company][0]
    if not corpus.members(sector, year):
        sector = next(name for name in SECTORS if corpus.members(name, year))
    metric = rng.choice(sorted(METRICS))
    known = {"company": company, "other": other, "before": before, "year": year, "sector": sector}
    return {"kind": kind, "metric": metric, **known}


def _answer(corpus: Corpus, asked: Mapping[str, Any]) -> float:
    company, year, kind = asked["company"], asked["year"], asked["kind"]
    members = corpus.members(asked["sector"], year)
    if kind == "total":
        return sum(corpus.euros(member, year) for member in members)
    if kind == "best":
        return max(corpus.margin(member, year) for member in members)
    if kind == "margin":
        return corpus.margin(company, year)
    if kind == "head":
        return corpus.euros(company, year) / corpus.figure(company, year, "staff")
    if kind == "gap":
        theirs = corpus.figure(asked["other"], year, "staff")
        return corpus.figure(company, year, "staff") - theirs
    old = corpus.figure(company, asked["before"], asked["metric"])
    return 100 * (corpus.figure(company, year, asked["metric"]) - old) / old


def _money(rng: random.Random, thousands: int, currency: str) -> str:
    return rng.choice(
        (
            f"{thousands:,} thousand {currency}",
            f"{thousands / 1000:.2f} million {currency}",
            f"{currency} {thousands * 1000:,}",
        )
    )


def _shown(rng: random.Random, corpus: Corpus, spot: Spot, value: int) -> str:
    """A value as the documents write it."""
    return str(value) if spot.metric == "staff" else _money(rng, value, corpus.currency[spot[0]])


def _report(
    rng: random.Random, corpus: Corpus, company: str, year: int, printed: Mapping[Spot, int]
) -> str:
    def show(metric: str, at: int = year) -> str:
        spot = Spot(company, at, metric)
        return _shown(rng, corpus, spot, printed[spot])

    expected = _money(rng, 10 * rng.randrange(200, 9000), corpus.currency[company])
    said = [
        rng.choice(("Revenue came to {}.", "The year's revenue was {}.")).format(show("revenue")),
        rng.choice(("Costs amounted to {}.", "We spent {} to earn it.")).format(show("costs")),
        rng.choice(("At its end {} people were employed.", "It ended with {} on the payroll."))
        .format(show("staff")),
        f"For {year + 1} the board expects a revenue of {expected}.",
        f"{rng.randrange(2, 40)} people joined as trainees.",
    ]  # fmt: skip
    if year > corpus.years[0]:
        said.append(f"A year before, revenue had been {show('revenue', year - 1)}.")
    body = []
    for line in said:
        body += [f"{line} {sentence(rng)}", *(sentence(rng) for _ in range(rng.randrange(3)))]
    return f"# {company}: annual report {year}\n\n" + "\n\n".join(body) + "\n"


def _other(rng: random.Random, corpus: Corpus, spot: Spot) -> int:
    """A wrong value that looks like the right one."""
    return (
        corpus.figures[spot]
        + 10 * rng.choice((-7, -4, -1, 3, 6, 11))
        + (150 if spot.metric == "staff" else 0)
    )


def _notices(
    rng: random.Random, corpus: Corpus, needed: Sequence[set[Spot]], difficulty: int
) -> tuple[dict[Spot, int], list[str]]:
    """What the reports print, and the corrections by which it becomes the truth. Of the figures
    that each question needs (but for one question) one is among the corrected ones."""
    printed, texts = dict(corpus.figures), []
    used = set().union(*needed)
    idle = sorted(set(corpus.figures) - used)
    chosen = [rng.choice(sorted(spots)) for spots in needed[:difficulty]]
    wrong = [*dict.fromkeys(chosen), *rng.sample(idle, 2)]
    for spot in wrong:
        printed[spot] = _other(rng, corpus, spot)
        steps = [corpus.figures[spot]]
        if difficulty >= 3 and rng.random() < 0.5:
            steps.insert(0, _other(rng, corpus, spot))
        for value in steps:
            texts.append(
                f"Correction. In the annual report {spot.year} of {spot.company} the "
                f"{METRICS[spot.metric]} is wrong.\nThe right figure is "
                f"{_shown(rng, corpus, spot, value)}. {sentence(rng)}\n"
            )
    if difficulty >= 4:
        spot = rng.choice(sorted(used - set(wrong)) or sorted(set(idle) - set(wrong)))
        texts.append(
            f"Correction. In the annual report {spot.year} of {spot.company} the "
            f"{METRICS[spot.metric]} is wrong.\nThe right figure is "
            f"{_shown(rng, corpus, spot, _other(rng, corpus, spot))}. {sentence(rng)}\n"
        )
        texts.append(
            f"Withdrawal. The notices on the {METRICS[spot.metric]} in the annual report "
            f"{spot.year} of {spot.company} are withdrawn: the report stands.\n"
        )
    return printed, texts


def _files(
    rng: random.Random, corpus: Corpus, needed: Sequence[set[Spot]], difficulty: int
) -> dict[str, bytes]:
    printed, notices = _notices(rng, corpus, needed, difficulty)
    files = {
        f"reports/{company.replace(' ', '-').lower()}-{year}.md": _report(
            rng, corpus, company, year, printed
        )
        for company in corpus.currency
        for year in corpus.years
    }
    for number, text in enumerate(notices, 1):
        files[f"notices/{number:03d}.txt"] = text
    last = corpus.years[-1]
    rows = ["company,sector,from,to"]
    for company, (sector, since, later) in corpus.sectors.items():
        rows.append(f"{company},{sector},{corpus.years[0]},{since - 1 if since else last}")
        if since:
            rows.append(f"{company},{later},{since},{last}")
    files["register.csv"] = "\n".join(rows) + "\n"
    rates = [
        f"{year},{currency},{rate},{rate * rng.randrange(90, 110) / 100:.4f}"
        for (year, currency), rate in corpus.rates.items()
    ]
    files["rates.csv"] = "\n".join(["year,currency,average,at_year_end", *rates]) + "\n"
    return {name: text.encode() for name, text in files.items()}


INSTRUCTION = """\
/app holds annual reports (reports/), notices that were published after them in the order of their \
numbers (notices/), a register of the companies' sectors by year (register.csv) and exchange rates \
in EUR for one unit of a currency (rates.csv). A figure that a notice corrects is wrong in its \
report and wherever it is repeated; the latest notice on it counts. Margin is revenue less costs, \
as a share of revenue. Convert at the average rate of the year.

Work out:
{questions}

Write answers.json: an object with the question's number as key ("1", "2", ...) and a number, \
rounded to one decimal, as value."""


def make(rng: random.Random, difficulty: int) -> Problem:
    corpus = draw(rng, difficulty)
    kinds = rng.sample(sorted(ASKED), 1 + difficulty)
    questions = [_question(rng, corpus, kind) for kind in kinds]
    answers, needed = {}, []
    for number, question in enumerate(questions, 1):
        corpus.used.clear()
        answers[str(number)] = round(_answer(corpus, question), 1)
        needed.append(set(corpus.used))
    lines = [
        f"{n}. {ASKED[q['kind']].format(**{**q, 'metric': METRICS[q['metric']]})}"
        for n, q in enumerate(questions, 1)
    ]
    return Problem(
        instruction=INSTRUCTION.format(questions="\n".join(lines)),
        files=_files(rng, corpus, needed, difficulty),
        grader=GRADER,
        facts={"answers": answers},
        solution=f"python3 - <<'PY'\nQUESTIONS = {json.dumps(questions)}\n{SOLUTION}PY",
    )


FAMILY = Family("documents", make)
