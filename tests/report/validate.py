"""Holds reports against the schema: validate.py SCHEMA REPORT... exits 1 where one does not fit.

With --self-test the reports are broken in one place each, and each break must be refused."""

import copy
import json
import sys

import jsonschema


def breaks(report):
    """The report with one thing wrong, once a kind of wrong."""
    changes = {
        "schema name": lambda r: r.update(schema="slicecheck-report/2"),
        "verdict word": lambda r: r.update(verdict="fine"),
        "code of another verdict": lambda r: r.update(exit_code=0 if r["exit_code"] else 1),
        "unknown key": lambda r: r.update(extra=1),
        "no run": lambda r: r.pop("run"),
        "status word": lambda r: r["checks"][0].update(status="ok"),
        "negative count": lambda r: r["checks"][0].update(compared=-1),
        "finding without ranks": lambda r: r["findings"][0].pop("ranks"),
        "want that is not hex": lambda r: r["findings"][0]["first"].update(want="xyz"),
        "side word": lambda r: r["findings"][0].update(side="left"),
    }
    for name, change in changes.items():
        broken = copy.deepcopy(report)
        change(broken)
        yield name, broken


def main(argv):
    self_test = argv[1] == "--self-test"
    schema_path, *paths = argv[2:] if self_test else argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    wrong = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        for error in validator.iter_errors(report):
            wrong += 1
            print(f"{path}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}")
        if self_test:
            for name, broken in breaks(report):
                if validator.is_valid(broken):
                    wrong += 1
                    print(f"{path}: the schema accepts a report with: {name}")
    print(f"{len(paths)} reports, {wrong} places that do not fit")
    return 1 if wrong or not paths else 0


sys.exit(main(sys.argv))
