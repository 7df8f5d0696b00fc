"""How much is tried, from which seeds, and the values that have broken something somewhere.

In `make test` a run is to be repeated, not to be lucky: each operation has its own seed, the same
every time. With FUZZ_EXAMPLES every run is another one, and FUZZ_SEED repeats the one that failed.
"""

import os
import random
import zlib
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from fuzzing.things import SCRIPT

Test = Callable[..., None]

ASKED = os.environ.get("FUZZ_EXAMPLES")
SEED = int(os.environ.get("FUZZ_SEED") or (random.getrandbits(32) if ASKED else 0))
SECONDS = 3600 if ASKED else 120  # until a run counts as hung

ATTRIBUTE = '" onfuzz="'
# Numbers beyond every column, letters no column holds or that grow when looked for, and what means
# something to a path, a pattern, a header or a page.
HOSTILE = (
    "", " ", "\0", "a\0b", "\ud800", "\ufffe", "\u202e", "İ" * 500, "ﷺ" * 500, "🖼" * 500,
    "9" * 5000, str(2**63), str(-(2**63) - 1), "-1", "1e400", "NaN", "٣",
    "../../etc/passwd", "..", ".", "//evil.example", "/\\evil.example", "javascript:fuzz",
    "a\r\nset-cookie: x=y", "%", "%00", "%zz", "_", "\\", "'", "' OR 1=1 --", "a" * 5000,
    ATTRIBUTE, SCRIPT, f'">{SCRIPT}', f"'>{SCRIPT}", f"</script>{SCRIPT}", f"</textarea>{SCRIPT}",
)  # fmt: skip
UNHEALTHY_RANGES = (
    "bytes=0-0", "bytes=-1", "bytes=5-2", "bytes=0-", "bytes=999999-", "bytes=0-1,3-4", "bytes=-0",
    "bytes=", "lines=1-2", "bytes=٣-٤", f"bytes={'9' * 5000}-", f"bytes=-{'9' * 5000}",
)  # fmt: skip

words = st.sampled_from(HOSTILE) | st.text(max_size=30) | st.integers().map(str)
ranges = st.none() | st.sampled_from(UNHEALTHY_RANGES) | st.integers(0).map("bytes={}-".format)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | words
json_values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(words, inner), max_leaves=8
)


def run_of(label: str, normally: int) -> Callable[[Test], Test]:
    """Decorates a test made by `given`: how often, and from which seed."""
    amount = settings(
        max_examples=int(ASKED or normally),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    seeded = hypothesis.seed(zlib.crc32(label.encode()) ^ SEED)

    def decorated(test: Test) -> Test:
        return seeded(amount(test))

    return decorated


def changed(sample: Any) -> st.SearchStrategy[Any]:
    """A message as it should be, but for one of its values."""
    spots = list(_spots(sample))
    picked = st.tuples(st.sampled_from(spots), json_values)
    return st.just(sample) | picked.map(lambda pick: _with(sample, pick[0], pick[1]))


def _spots(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items() if isinstance(value, dict)
        else enumerate(value) if isinstance(value, list) else ()
    )  # fmt: skip
    return [above, *(spot for key, one in inner for spot in _spots(one, (*above, key)))]


def _with(value: Any, spot: tuple[Any, ...], new: Any) -> Any:
    if not spot:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[spot[0]] = _with(value[spot[0]], spot[1:], new)
    return copy
