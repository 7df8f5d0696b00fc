"""`make bench`: measures everything, or the parts that are named, and keeps of each the last run in
docs/performance.md. `python -m bench queue pipeline` is the same.
"""

import platform
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench import (
    crossing,
    generations,
    growth,
    hostile,
    organizations,
    pages,
    pipeline,
    queue,
    reconcile,
    standing,
    uploads,
)
from bench.measure import Shown

PAGE = Path(__file__).parents[1] / "docs/performance.md"
PARTS: dict[str, Callable[[], Sequence[Shown]]] = {
    "pipeline": pipeline.run,
    "growth": growth.run,
    "organizations": organizations.run,
    "uploads": lambda: [uploads.run()],
    "queue": lambda: [queue.run()],
    "children": lambda: [crossing.run()],
    "standing": standing.run,
    "reconcile": reconcile.run,
    "hostile": hostile.run,
    "generations": generations.run,
    "pages": pages.run,
}
INTRODUCTION = """# Performance

Written by `make bench`. Machines are noisy, so what counts are the ratios within one part, which is
measured in one go; CPU time is that of every process named, user and system, without the load
generator's.
"""
_PART = re.compile(r"(?ms)^<!-- (\w+) -->\n(.*?)(?=^<!-- |\Z)")


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        sys.exit(f"There is no part {', '.join(unknown)}. There are {', '.join(PARTS)}.")
    for name in chosen:
        print(f"… {name}", file=sys.stderr, flush=True)
        shown = [each.markdown() for each in PARTS[name]()]
        print("\n".join(shown), flush=True)
        # After each part: a run that is cut short keeps what it measured.
        PAGE.write_text(updated(PAGE.read_text(), name, "\n".join([_machine(), *shown])))


def updated(page: str, name: str, text: str) -> str:
    """The page with one part anew; the others stay as they were measured."""
    parts = {found[1]: found[2] for found in _PART.finditer(page)} | {name: text}
    known = [f"<!-- {part} -->\n{parts[part].strip()}\n" for part in PARTS if part in parts]
    return "\n".join([INTRODUCTION, *known])


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    load = psutil.getloadavg()[0]
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, {psutil.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, load {load:.1f} at the end.\n"
    )


if __name__ == "__main__":
    main()
