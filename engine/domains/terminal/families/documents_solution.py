"""How the questions over documents are answered from the documents alone (``QUESTIONS`` says which
are asked)."""

SOLUTION = r"""
import csv, glob, json, re

METRIC = {"revenue": "revenue", "costs": "costs", "number of employees": "staff"}
END = r"\.(?=\s|$)"
SAID = {
    "revenue": rf"(?:Revenue came to|The year's revenue was) (.+?){END}",
    "costs": rf"(?:Costs amounted to (.+?){END}|We spent (.+?) to earn it)",
    "staff": r"(?:At its end (\d+) people|It ended with (\d+) on)",
}


def value(text):
    number = float(re.search(r"[\d,.]*\d", text)[0].replace(",", ""))
    if re.match(r"[A-Z]{3} ", text):
        return number / 1000
    return number * 1000 if "million" in text else number


figures, currency = {}, {}
for path in glob.glob("reports/*.md"):
    text = open(path).read()
    company, year = re.match(r"# (.*): annual report (\d+)", text).groups()
    for metric, pattern in SAID.items():
        found = re.search(pattern, text)
        words = next(group for group in found.groups() if group)
        figures[company, int(year), metric] = value(words)
        if metric == "revenue":
            currency[company] = re.search(r"[A-Z]{3}", words)[0]
printed = dict(figures)
for path in sorted(glob.glob("notices/*.txt")):
    text = open(path).read()
    back = re.search(r"notices on the (.*) in the annual report (\d+) of (.*) are withdrawn", text)
    if back:
        key = back[3], int(back[2]), METRIC[back[1]]
        figures[key] = printed[key]
        continue
    year, company, metric = re.search(r"report (\d+) of (.*) the (.*) is wrong", text).groups()
    right = re.search(rf"The right figure is (.+?){END}", text)[1]
    figures[company, int(year), METRIC[metric]] = value(right)
rates = {(int(r["year"]), r["currency"]): float(r["average"])
         for r in csv.DictReader(open("rates.csv"))}
register = list(csv.DictReader(open("register.csv")))


def margin(company, year):
    revenue = figures[company, year, "revenue"]
    return 100 * (revenue - figures[company, year, "costs"]) / revenue


def euros(company, year):
    return figures[company, year, "revenue"] * rates[year, currency[company]]


answers = {}
for number, q in enumerate(QUESTIONS, 1):
    company, year, metric = q["company"], q["year"], q["metric"]
    members = [r["company"] for r in register if r["sector"] == q["sector"]
               and int(r["from"]) <= year <= int(r["to"])]
    if q["kind"] == "total":
        result = sum(euros(member, year) for member in members)
    elif q["kind"] == "best":
        result = max(margin(member, year) for member in members)
    elif q["kind"] == "margin":
        result = margin(company, year)
    elif q["kind"] == "head":
        result = euros(company, year) / figures[company, year, "staff"]
    elif q["kind"] == "gap":
        result = figures[company, year, "staff"] - figures[q["other"], year, "staff"]
    else:
        old = figures[company, q["before"], metric]
        result = 100 * (figures[company, year, metric] - old) / old
    answers[str(number)] = round(result, 1)
json.dump(answers, open("answers.json", "w"))
"""
