"""Takes each guard out of the SQL, one at a time, and shows that a test misses it.

A guard is a condition beyond the first (behind an AND, or appended to a list of conditions), an IF
that returns or refuses, and a lock. For each one the tree is copied, the guard made to let all
pass, and the tests of its owner are run until one fails. A condition stays, joined by OR true, so
that the statement keeps its parameters. Ends with 1 if there are guards that nobody misses, or
whose removal left no SQL.

    python tools/guards.py [owner …] [--list]

Owners are the files in sql/ (queue ingest …) and repos (accounts/repo accounts/sign_in/repo …).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = Path("src/safelight")
NOBODY = "NOBODY MISSES IT"
TESTS = {
    "unit": "tests/infra/test_units.py tests/infra/queue/test_leases.py",
    "activity": "tests/live/test_feed.py tests/infra/test_units.py",
    "kv": "tests/infra/test_kv.py",
    "locks": "tests/library/test_races.py tests/live/test_feed.py tests/ingest/test_accept.py "
    "tests/submissions/test_recovery.py tests/accounts/test_sign_in.py tests/objects "
    "tests/accounts/test_first_start.py",
    "queue": "tests/infra/queue/test_leases.py tests/infra/queue/test_enqueueing.py "
    "tests/infra/queue/test_fairness.py tests/infra/queue/test_schedules.py "
    "tests/infra/queue/test_dead_letters.py tests/infra/test_units.py "
    "tests/infra/queue/test_machine.py",
    "ingest": "tests/ingest/test_statements.py tests/ingest/test_offload.py "
    "tests/ingest/test_offload_s3.py tests/ingest/test_accept.py "
    "tests/library/test_mutations.py tests/library/test_scenarios.py",
    "objects": "tests/ingest/test_statements.py tests/objects/test_collect.py "
    "tests/objects/test_conformance.py "
    "tests/submissions/test_publication.py tests/library/test_library.py",
    "library": "tests/library/test_statements.py tests/classification/test_runs.py "
    "tests/library/test_races.py tests/library/test_library.py tests/library/test_scenarios.py "
    "tests/library/test_mutations.py tests/library/test_convergence.py",
    "classification": "tests/classification/test_runs.py tests/library/test_mutations.py "
    "tests/library/test_scenarios.py tests/library/test_library.py "
    "tests/library/test_convergence.py",
    "submissions": "tests/submissions/test_blocklist.py",
    "accounts/repo": "tests/accounts/test_statements.py tests/accounts/test_tokens_and_members.py",
    "accounts/sign_in/repo": "tests/accounts/test_statements.py tests/accounts/test_sign_in.py",
    "approvals/repo": "tests/approvals/test_statements.py tests/approvals/test_approvals.py",
    "generations/repo": "tests/generations/test_statements.py tests/generations/test_sweep.py",
    "generations/artifacts/repo": "tests/generations/test_statements.py "
    "tests/generations/test_routes.py",
    "submissions/repo": "tests/submissions/test_statements.py tests/submissions/test_blocklist.py "
    "tests/submissions/test_recovery.py",
    "objects/notifications/repo": "tests/objects/test_intake.py",
}
# The plugin takes longer to import than most of these tests take.
_LEAN = ("-p", "no:schemathesis", "-p", "no:cacheprovider")
# A condition ends before any of these, unless they stand in brackets that it opens.
_END = re.compile(
    r""";|"|\s*\n|\s--|[)\]}]|\s(?:AND|OR|THEN|LOOP|AS|FOR|LIMIT|DO|ORDER|GROUP|WHERE|LEFT|JOIN|UNION"""
    r"""|RETURNING)\b"""
)
_AND = re.compile(r"\bBETWEEN\b[^\n]*? AND |\bAND (?!'\.join)(?P<guard>)")
_APPENDED = re.compile(r'conditions\.append\(f?"(?P<guard>[^"]+)"\)')
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
# What the server and its driver say of a text that is no statement any more.
_NO_SQL = re.compile(
    r"(?:PostgresSyntax|Undefined\w+|Ambiguous\w+|DatatypeMismatch|Indeterminate\w+|Grouping)Error"
    r"|the server expects \d+ argument"
)


@dataclass(frozen=True)
class Guard:
    path: Path
    function: str
    line: int
    start: int
    stop: int
    without: str
    text: str


def owners() -> list[str]:
    repos = [path.relative_to(ROOT / SOURCE) for path in (ROOT / SOURCE).rglob("repo.py")]
    functions = [path.stem for path in (ROOT / SOURCE / "sql").glob("*.sql")]
    return sorted([*functions, *(str(path.with_suffix("")) for path in repos)])


def path_of(owner: str) -> Path:
    return SOURCE / (f"{owner}.py" if owner.endswith("/repo") else f"sql/{owner}.sql")


def tests_of(owner: str) -> str:
    """A repo that names none has those of the functions it calls: library/repo, library."""
    return TESTS.get(owner) or TESTS[owner.split("/")[-2]]


def guards(owner: str) -> list[Guard]:
    path = path_of(owner)
    source = (ROOT / path).read_text()
    places = [
        (*match.span("guard"), without)
        for pattern, without in _WITHOUT.items()
        for match in pattern.finditer(source)
    ]
    begins = [match.end() for match in _AND.finditer(source) if match["guard"] is not None]
    places += [(begin, _end(source, begin), "({} OR true)") for begin in begins]
    return [
        _guard(path, source, *place)
        for place in sorted(places)
        if "--" not in source[source.rfind("\n", 0, place[0]) + 1 : place[0]]
    ]


def _end(source: str, at: int) -> int:
    depth = 0
    while depth or not _END.match(source, at):
        depth += (source[at] in "([{") - (source[at] in ")]}")
        at += 1
    return at


def _guard(path: Path, source: str, start: int, stop: int, without: str) -> Guard:
    guard = source[start:stop]
    function = (re.findall(r"(?:FUNCTION|def) (\w+)", source[:start]) or ["at the top"])[-1]
    line = source.count("\n", 0, start) + 1
    text = " ".join(guard.split())
    return Guard(path, function, line, start, stop, without.replace("{}", guard), text)


def judged(guard: Guard | None, tests: str) -> str:
    """What the tests say without it; or as it is, if there is none."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        shutil.copytree(ROOT / "src", copy / "src")
        if guard:
            source = (copy / guard.path).read_text()
            changed = source[: guard.start] + guard.without + source[guard.stop :]
            (copy / guard.path).write_text(changed)
        run = [sys.executable, "-m", "pytest", "-x", "-q", *_LEAN]
        done = subprocess.run(
            [*run, *tests.split()],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy / "src")},
            capture_output=True,
            text=True,
        )
    if done.returncode == 0:
        return NOBODY
    if broken := _NO_SQL.search(done.stdout):
        return f"NO SQL ({broken[0]})"
    by = re.search(r"^(?:FAILED|ERROR) \S*/(\S+)", done.stdout, re.MULTILINE)
    return f"missed by {by[1] if by else done.stdout[-300:]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("owners", nargs="*")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    unmissed = 0
    for owner in asked.owners or owners():
        tests, found = tests_of(owner), guards(owner)
        if found and not asked.list and (red := judged(None, tests)) != NOBODY:
            sys.exit(f"the tests of {owner} fail as it is: {red}")
        for guard in found:
            where = f"{guard.path.relative_to(SOURCE)}:{guard.line} {guard.function}: {guard.text}"
            if asked.list:
                print(where)
                continue
            word = judged(guard, tests)
            unmissed += not word.startswith("missed")
            print(f"{where}\n    {word}", flush=True)
    return int(unmissed > 0)


if __name__ == "__main__":
    sys.exit(main())
