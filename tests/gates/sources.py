"""The texts that gates look at besides the source itself."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
# They speak about points and tests without being tests of anything that runs.
_ABOUT = ("gates/", "points.py", "test_failpoints.py")


@cache
def texts_of_tests() -> Mapping[str, str]:
    found = {str(path.relative_to(TESTS)): path.read_text() for path in sorted(TESTS.rglob("*.py"))}
    return {name: text for name, text in found.items() if not name.startswith(_ABOUT)}


def clean(found: list[str]) -> None:
    """Nothing was found; otherwise says all of it, one line each."""
    assert not found, "\n" + "\n".join(found)
