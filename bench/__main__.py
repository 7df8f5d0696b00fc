"""`make bench`: measures everything and keeps the last run in docs/performance.md.

Name parts to run only those, without writing the page: `python -m bench queue pipeline`.
"""

import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench import crossing, generations, hostile, pipeline, queue, standing, uploads
from bench.measure import Table

PAGE = Path(__file__).parents[1] / "docs/performance.md"
PARTS: dict[str, Callable[[], list[Table]]] = {
    "uploads": lambda: [uploads.run()],
    "queue": lambda: [queue.run()],
    "pipeline": pipeline.run,
    "children": lambda: [crossing.run()],
    "standing": standing.run,
    "hostile": hostile.run,
    "generations": generations.run,
}
INTRODUCTION = """# Performance

Written by `make bench`. Machines are noisy, so what counts are the ratios within one run; CPU time
is that of every process named, user and system, without the load generator's.
"""


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    pages = []
    for name in chosen:
        print(f"… {name}", file=sys.stderr, flush=True)
        for table in PARTS[name]():
            pages.append(table.markdown())
            print(pages[-1], flush=True)
        if len(sys.argv) == 1:  # after each part: a run that is cut short keeps what it measured
            PAGE.write_text("\n".join([INTRODUCTION, _machine(), *pages]))


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    load = psutil.getloadavg()[0]
    return (
        f"Last run: {datetime.now(UTC):%Y-%m-%d}, {psutil.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, load {load:.1f} at the end.\n"
    )


if __name__ == "__main__":
    main()
