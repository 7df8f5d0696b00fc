"""Takes each guard out of the SQL, one at a time, and shows that a test misses it.

A guard is a condition beyond the first (behind an AND, or appended to a list of conditions), an IF
that returns or refuses, and a lock. For each one a copy of the source is made to let all pass, and
the tests of its owner are run until one fails, first those that come by its function. A condition
stays, joined by OR true, so that the statement keeps its parameters. Ends with 1 if there are
guards that nobody misses, or whose removal left no SQL.

    python tools/guards.py [owner[:function] …] [--list] [--tests "file …"]

Owners are the files in sql/ (queue ingest …) and repos (accounts/repo accounts/sign_in/repo …).
"""

import argparse
import re
import sys
from pathlib import Path

from forks import ROOT, SOURCE, Guard, unmissed

# Where each owner's tests are: in tests/, and in which test_*.py.
TESTS = {
    "unit": "infra/units upgrade/statements",
    "activity": "live/feed infra/stretches",
    "stretches": "infra/stretches",
    "kv": "infra/kv",
    "queue": "infra/queue/statements infra/queue/leases infra/queue/fairness infra/queue/clock "
    "infra/queue/dead_letters infra/queue/schedules infra/queue/suspects infra/units",
    "ingest": "ingest/statements ingest/newer ingest/offload ingest/accept ingest/handed_over "
    "library/arrival ingest/nodes_statements ingest/nodes ingest/direct",
    "objects": "objects/statements ingest/statements objects/collect ingest/offload "
    "library/arrival library/arrival_batches",
    "library": "library/arrival library/arrival_batches library/statements library/races "
    "library/retention library/thumbnail_statements library/finding classification/runs "
    "classification/results classification/again_statements classification/reclassify "
    "classification/twins upgrade/statements",
    "classification": "classification/runs classification/results library/thumbnail_statements "
    "library/arrival_batches classification/forgetting classification/reclassify "
    "classification/twins",
    "accounts": "accounts/statements accounts/lockout",
    "accounts/repo": "accounts/statements accounts/tokens_and_members",
    "accounts/invitations/repo": "accounts/sign_in_statements accounts/invitations",
    "accounts/sign_in/repo": "accounts/statements accounts/sign_in_statements accounts/sign_in",
    "approvals/repo": "approvals/statements approvals/approvals",
    "generations/repo": "generations/statements generations/sweep",
    "generations/artifacts/repo": "generations/statements generations/routes",
    "generations/artifacts/lists/repo": "generations/lists",
    "generations/artifacts/thumbnails/repo": "generations/thumbnails",
    "submissions/repo": "submissions/statements submissions/blocklist submissions/recovery",
    "infra/queue/repo": "infra/queue/statements infra/queue/dead_letters ingest/node",
    "ingest/repo": "ingest/statements",
    "ingest/nodes/repo": "ingest/nodes_statements ingest/nodes ingest/adopting",
    "objects/repo": "objects/statements",
    "library/repo": "library/statements library/standing",
    "library/reconcile/repo": "library/statements library/reconcile_own",
    "library/retention/repo": "library/statements library/retention",
    "library/thumbnails/repo": "library/thumbnail_statements",
    "classification/repo": "classification/runs classification/results",
    "classification/reclassify/repo": "classification/reclassify",
    "classification/similar/repo": "classification/similar classification/twins",
}
# Conditions that change the plan and nothing else: the index they ask for has them.
PLANS = {
    ("_LABELS", "classification_label IS NOT NULL"),
    ("library_undrawn", "drawn < 7"),
}
# A condition ends before any of these, unless they stand in brackets that it opens.
_END = re.compile(
    r""";|"|\s*\n(?!\s*[<>=])|\s--|[)\]}]|\s(?:AND|OR|THEN|LOOP|AS|FOR|LIMIT|DO|ORDER|GROUP|WHERE|LEFT|JOIN|UNION"""
    r"""|RETURNING)\b"""
)
_AND = re.compile(r"\bBETWEEN\b[^\n]*? AND |\bAND (?!'\.join)(?P<guard>)")
_APPENDED = re.compile(r'conditions\.append\(f?"(?P<guard>[^"]+)"\)')
_NONE = re.compile("--|ON CONFLICT")  # before it on its line: words, or an index of that name
_NAME = re.compile(r"(?:FUNCTION |def |^(?=\w+ = ))(\w+)", re.MULTILINE)  # or a text's, in a repo
_IF = re.compile(r"\b(?:ELS)?IF (?P<guard>[^;]+?) THEN")
_LOCK = re.compile(
    r"(?P<guard>    PERFORM \w+_lock\w*\([^;]*\);\n"
    r"|\bFOR (?:NO KEY )?(?:UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?)"
)
_SELECTED = re.compile(r'"SELECT (?P<guard>(?!\w+_try_)\w+_lock\([^)]*\))"')
_TRIED = re.compile(r'"SELECT (?P<guard>\w+_try_lock\([^)]*\))"')
# What is written instead of a guard.
_WITHOUT = {
    _APPENDED: "({} OR true)",
    _IF: "false AND ({})",
    _LOCK: "",
    _SELECTED: "{} WHERE false",
    _TRIED: "{} OR true",
}


def owners() -> list[str]:
    repos = [path.relative_to(ROOT / SOURCE) for path in (ROOT / SOURCE).rglob("repo.py")]
    functions = [path.stem for path in (ROOT / SOURCE / "sql").glob("*.sql")]
    return sorted([*functions, *(str(path.with_suffix("")) for path in repos)])


def path_of(owner: str) -> Path:
    return SOURCE / (f"{owner}.py" if owner.endswith("/repo") else f"sql/{owner}.sql")


def guards(owner: str, tests: str = "") -> list[Guard]:
    owner, _, function = owner.partition(":")
    path = path_of(owner)
    source = (ROOT / path).read_text()
    places = [
        (*match.span("guard"), without)
        for pattern, without in _WITHOUT.items()
        for match in pattern.finditer(source)
    ]
    begins = [match.end() for match in _AND.finditer(source) if match["guard"] is not None]
    places += [(begin, _end(source, begin), "({} OR true)") for begin in begins]
    files = tuple(tests.split()) or _files(owner)
    found = [
        _guard(path, source, *place, files)
        for place in sorted(places)
        if not _NONE.search(source, source.rfind("\n", 0, place[0]) + 1, place[0])
    ]
    return [
        guard
        for guard in found
        if function in ("", guard.function) and (guard.function, guard.text) not in PLANS
    ]


def _files(owner: str) -> tuple[str, ...]:
    places = [Path("tests", place) for place in TESTS.get(owner, "").split()]
    return tuple(str(place.with_name(f"test_{place.name}.py")) for place in places)


def _end(source: str, at: int) -> int:
    depth = 0
    while depth or not _END.match(source, at):
        depth += (source[at] in "([{") - (source[at] in ")]}")
        at += 1
    return at


def _guard(
    path: Path, source: str, start: int, stop: int, without: str, tests: tuple[str, ...]
) -> Guard:
    guard = source[start:stop]
    function = _NAME.findall(source[:start])[-1]
    line = source.count("\n", 0, start) + 1
    text = " ".join(guard.split())
    return Guard(path, function, line, start, stop, without.replace("{}", guard), text, tests)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("owners", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--tests", default="")
    asked = parser.parse_args()
    found = [guard for owner in asked.owners or owners() for guard in guards(owner, asked.tests)]
    if asked.list:
        print(*found, sep="\n")
        return 0
    return int(unmissed(found) > 0)


if __name__ == "__main__":
    sys.exit(main())
