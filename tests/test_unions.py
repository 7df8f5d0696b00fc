"""A member that is added to a union is missed wherever it was not thought of."""

from textwrap import dedent

import pytest

from gates import unions
from gates.sources import clean
from points import sources

# `file:function`: why the members it does not name are all alike to it.
EXCEPTIONS: dict[str, str] = {}


def test_whoever_tells_members_apart_ends_in_assert_never() -> None:
    clean(unions.open_ended(sources(), EXCEPTIONS))


def test_unions_are_found_however_they_are_declared() -> None:
    text = "class A: ...\nclass B: ...\nclass C: ...\nX = A | B\nY: TypeAlias = B | C\n"
    answer = "def f() -> A | C: ...\ndef g() -> A | None: ..."
    found = unions.declared({"a.py": text + answer})
    assert sorted(map(sorted, found)) == [["A", "B"], ["A", "C"], ["B", "C"]]


@pytest.mark.parametrize(
    ("body", "bad"),
    [
        ("if isinstance(x, A):\n  return 1\nif isinstance(x, B):\n  return 2\nassert_never(x)", False),
        ("if isinstance(x, A):\n  return 1\nif isinstance(x, B):\n  return 2", True),
        ("if isinstance(x, A | B):\n  return 1\nreturn 2", True),
        ("return 1 if isinstance(x, A) else 2", False),
        ("match x:\n  case A():\n    return 1\n  case B():\n    return 2", True),
        ("match x:\n  case A():\n    return 1\n  case _:\n    assert_never(x)", False),
        ("match x:\n  case S.ONE:\n    return 1\n  case S.TWO:\n    return 2", True),
        ("match x:\n  case 'word':\n    return 1\n  case _:\n    return 2", False),
    ],
)  # fmt: skip
def test_the_gate_sees_a_missing_end(body: str, bad: bool) -> None:
    lines = "\n".join(f"  {line}" for line in dedent(body).splitlines())
    text = f"class A: ...\nclass B: ...\nclass C: ...\nX = A | B | C\ndef f(x):\n{lines}\n"
    assert bool(unions.open_ended({"a.py": text})) is bad
