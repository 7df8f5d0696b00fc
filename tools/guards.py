"""Takes each guard out of the SQL functions, one at a time, and shows that a test misses it.

A guard is a condition of a WHERE beyond its first, an IF that returns or refuses, and a lock. For
each one the tree is copied, the guard replaced by nothing, and the tests of its owner are run until
one fails. Ends with 1 if there are any that nobody misses.

    python tools/guards.py [owner …] [--list]        owners: queue ingest objects library …
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
SQL = ROOT / "src/safelight/sql"
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
}
# One condition: up to the next AND or whatever may follow a WHERE, brackets taken whole.
_CONDITION = re.compile(
    r"\bAND (?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))+?"
    r"(?=;|\s*\n| AND | THEN| FOR | LIMIT | DO | ORDER |\))"
)
_IF = re.compile(r"\b(?:ELS)?IF (?P<condition>[^;]+?) THEN")
_LOCK = re.compile(r"    PERFORM \w+_lock\w*\([^;]*\);\n")


@dataclass(frozen=True)
class Guard:
    owner: str
    function: str
    line: int
    start: int
    stop: int
    without: str
    text: str


def guards(owner: str) -> list[Guard]:
    source = (SQL / f"{owner}.sql").read_text()
    found: dict[tuple[int, int], Guard] = {}
    for pattern, replacement in ((_CONDITION, ""), (_IF, None), (_LOCK, "")):
        for match in pattern.finditer(source):
            if _in_comment(source, match.start()):
                continue
            start, stop, without = match.start(), match.end(), replacement
            if without is None:
                start, stop = match.span("condition")
                without = f"false AND ({match['condition']})"
            function = re.findall(r"FUNCTION (\w+)", source[:start])[-1]
            line = source.count("\n", 0, start) + 1
            text = " ".join(source[start:stop].split())
            found[start, stop] = Guard(owner, function, line, start, stop, without, text)
    return [found[place] for place in sorted(found)]


def _in_comment(source: str, at: int) -> bool:
    line = source[source.rfind("\n", 0, at) + 1 : at]
    return "--" in line


def missed(guard: Guard) -> bool:
    """Whether some test fails without it."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        shutil.copytree(ROOT / "src", copy / "src")
        path = copy / "src/safelight/sql" / f"{guard.owner}.sql"
        source = path.read_text()
        path.write_text(source[: guard.start] + guard.without + source[guard.stop :])
        tests = [str(ROOT / one) for one in TESTS[guard.owner].split()]
        run = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*run, *tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy / "src")},
            capture_output=True,
            text=True,
        )
        return done.returncode != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("owners", nargs="*")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    owners = asked.owners or sorted(path.stem for path in SQL.glob("*.sql"))
    unmissed = 0
    for guard in (guard for owner in owners for guard in guards(owner)):
        where = f"sql/{guard.owner}.sql:{guard.line} {guard.function}: {guard.text}"
        if asked.list:
            print(where)
        elif missed(guard):
            print(f"missed         {where}", flush=True)
        else:
            unmissed += 1
            print(f"NOBODY MISSES  {where}", flush=True)
    return int(unmissed > 0)


if __name__ == "__main__":
    sys.exit(main())
