"""Takes every guard away, one at a time, and shows that a gate misses it.

    failpoints   each `@write` of a repo, each literal `hit` and `reach`
    asserts      each `assert_never`
    errors       each error's row in docs/errors.md, and each code's name in the tests
    known        each trigger that tells of changed credentials, and each unit that changes them

Nothing on disk changes: the gates are functions of text and get the text without the guard. A guard
that nobody misses is printed, and the exit status is 1. Without an argument all are tried.
"""

import argparse
import ast
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from gates import errors, failpoints, known, sql, unions  # noqa: E402
from gates.sources import texts_of_tests  # noqa: E402
from points import decorators, parsed, sources  # noqa: E402

Texts = Mapping[str, str]
Gate = Callable[[Texts], list[str]]
# All of one text only, so that one file is looked at again and not three hundred.
FAILPOINT_GATES: tuple[Gate, ...] = (
    failpoints.undeclared,
    failpoints.unguarded,
    failpoints.aimless,
)


def unmissed_failpoints() -> Iterator[str]:
    for file, text in sources().items():
        before = {found for gate in FAILPOINT_GATES for found in gate({file: text})}
        for name, without in _without_points(text):
            after = {found for gate in FAILPOINT_GATES for found in gate({file: without})}
            yield "" if _news(before, after) else f"{file} {name}"


def _without_points(text: str) -> Iterator[tuple[str, str]]:
    for node in parsed(text).body:
        if isinstance(node, ast.AsyncFunctionDef) and "write" in decorators(node):
            [mark] = [d for d in node.decorator_list if ast.unparse(d).endswith("write")]
            yield node.name, _without_lines(text, mark.lineno, mark.lineno)
    for inner in ast.walk(parsed(text)):
        if isinstance(inner, ast.Expr) and (name := failpoints.point_of(inner)):
            yield name, _blank(text, inner)


def _news(before: set[str], after: set[str]) -> set[str]:
    """What is found only now, wherever lines have moved to."""
    return _numberless(after) - _numberless(before)


def _numberless(found: set[str]) -> set[str]:
    return {re.sub(r"(:| \(line )\d+\)?", "", place) for place in found}


def unmissed_asserts() -> Iterator[str]:
    declared = unions.declared(sources())
    for file, text in sources().items():
        before = set(unions.open_ended({file: text}, unions=declared))
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Expr) and _is_assert_never(node.value):
                after = unions.open_ended({file: _blank(text, node)}, unions=declared)
                yield (
                    "" if _news(before, set(after)) else f"{file}:{node.lineno} {ast.unparse(node)}"
                )


def _is_assert_never(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith("assert_never")


def unmissed_errors() -> Iterator[str]:
    ours, page = errors.ours(), (ROOT / "docs/errors.md").read_text()
    words = errors.words_of(texts_of_tests())
    for kind in ours:
        row = f"| `{kind.code}` | {kind.status} | {kind.default_message()} |"
        yield (
            "" if errors.undocumented([kind], page.replace(row, "")) else f"the row of {kind.code}"
        )
    for code in sorted({kind.code for kind in ours}):
        same = [kind for kind in ours if kind.code == code]
        without = words - {code, *(kind.__name__ for kind in same)}
        yield "" if errors.unnamed(same, without) else f"the test of {code}"


def unmissed_known() -> Iterator[str]:
    migrations, owned = sql.baseline(), sql.made_tables(sql.baseline())
    before = set(known.unwatched(migrations, sources(), owned, ()))
    for trigger in re.findall(r"CREATE TRIGGER[^;]*credentials_changed\(\);", migrations):
        after = known.unwatched(migrations.replace(trigger, ""), sources(), owned, ())
        yield "" if set(after) - before else trigger.partition(" FOR ")[0]
    tables = known.tables(sources(), owned)
    past = set(known.outside_units(sources(), tables, ()))
    for file, text in sources().items():
        for call in known.changes(file, sources(), tables):
            if ast.unparse(call.args[0]) in known.IN_A_UNIT:
                changed = {**sources(), file: _with_database(text, call.args[0])}
                after = known.outside_units(changed, tables, ())
                yield "" if set(after) - past else f"{file}:{call.lineno} {ast.unparse(call)}"


def _with_database(text: str, argument: ast.expr) -> str:
    lines = text.splitlines()
    line = lines[argument.lineno - 1]
    rest = line[argument.end_col_offset :]
    lines[argument.lineno - 1] = f"{line[: argument.col_offset]}self.units.db{rest}"
    return "\n".join(lines)


def _blank(text: str, statement: ast.stmt) -> str:
    """`pass` in its place, as nothing may be an empty block."""
    lines = text.splitlines()
    indent = " " * statement.col_offset
    end = statement.end_lineno or statement.lineno
    lines[statement.lineno - 1 : end] = [f"{indent}pass"]
    return "\n".join(lines)


def _without_lines(text: str, first: int, last: int) -> str:
    lines = text.splitlines()
    del lines[first - 1 : last]
    return "\n".join(lines)


KINDS: dict[str, Callable[[], Iterator[str]]] = {
    "failpoints": unmissed_failpoints,
    "asserts": unmissed_asserts,
    "errors": unmissed_errors,
    "known": unmissed_known,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="|".join(KINDS))
    status = 0
    for kind in parser.parse_args().kinds or KINDS:
        started, tried = time.monotonic(), list(KINDS[kind]())
        unmissed = [name for name in tried if name]
        seconds = time.monotonic() - started
        print(f"{kind}: {len(tried)} taken away, {len(unmissed)} unmissed ({seconds:.1f} s)")
        print(*(f"    {name}" for name in unmissed), sep="\n", end="\n" if unmissed else "")
        status = status or bool(unmissed)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
