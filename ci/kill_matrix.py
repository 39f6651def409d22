#!/usr/bin/env python3
"""The kill matrix of a `slicecheck mutants` report as the README's table.

ci/kill_matrix.py REPORT                  prints the table
ci/kill_matrix.py REPORT --write README   puts it between the README's marks
ci/kill_matrix.py REPORT --check README   ends with 1 where the README has another
"""

import argparse
import json
import pathlib
import sys

BEGIN = "<!-- kill matrix: ci/kill_matrix.py -->"
END = "<!-- end of kill matrix -->"
TOTALS = {"mutants.caught", "mutants.named", "mutants.exact", "mutants.healthy"}


FIGURES = ("caught", "random_probe", "exact_probe", "named", "exact")
HEADS = (
    "fault",
    "planted",
    "caught",
    "by the random probe",
    "by the exact probe",
    "named",
    "named exactly",
)


def rows(report):
    """Fault, planted and the figures; one a row of the matrix, and their sum."""
    made = []
    for check in report["checks"]:
        if not check["id"].startswith("mutants.") or check["id"] in TOTALS:
            continue
        fault = check["id"].removeprefix("mutants.")
        made.append((fault, check["compared"], *(check["figures"][name] for name in FIGURES)))
    made.append(("all", *(sum(row[i] for row in made) for i in range(1, len(HEADS)))))
    return made


def table(report):
    """The table in Markdown, without a line end at its end."""
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows(report)]
    healthy = next(c for c in report["checks"] if c["id"] == "mutants.healthy")
    lines += ["", f"Findings on {healthy['compared']} healthy layouts: {healthy['differing']}."]
    return "\n".join(lines)


def parts(text):
    """The README before, between and behind the marks."""
    before, begin, rest = text.partition(BEGIN)
    between, end, behind = rest.partition(END)
    if not begin or not end:
        sys.exit(f"the README has no {BEGIN} ... {END}")
    return before, between.strip("\n"), behind


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path)
    arguments = parser.parse_args()
    due = table(json.loads(arguments.report.read_text(encoding="utf-8")))
    readme = arguments.write or arguments.check
    if readme is None:
        print(due)
        return 0
    before, between, behind = parts(readme.read_text(encoding="utf-8"))
    if arguments.write:
        text = f"{before}{BEGIN}\n{due}\n{END}{behind}"
        readme.write_text(text, encoding="utf-8")
        return 0
    if between != due:
        print(f"{readme}: the kill matrix is not this report's", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
