"""Every failpoint there is, read from the source: what a kill test is parametrized with.

    @pytest.mark.parametrize("point", points_of("library.", without=["library.sweep"]))
    async def test_a_death_at_any_step(point: str) -> None: ...

A repo's write that is added later is then killed without anybody remembering it. What is left out
by `without` is killed by another test, which names it; tests/test_failpoints.py counts all of it.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/safelight"
REACHING = ("hit", "reach")


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    file: str
    line: int
    declared: bool  # by a repo's @write; otherwise a literal before its effect


@cache
def sources() -> Mapping[str, str]:
    """The text of every module, by its path below src/safelight."""
    return {
        str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def parsed(text: str) -> ast.Module:
    """Nobody changes what this gives."""
    return ast.parse(text)


def points_of(*prefixes: str, without: Iterable[str] = ()) -> list[str]:
    """The names that begin with one of the prefixes, each once, sorted. A name in `without` that is
    no point (any more) is an error: nothing is left out by mistake."""
    found = {point.name for point in all_points(sources()) if point.name.startswith(prefixes)}
    left_out = set(without)
    assert left_out <= found, f"no such failpoints: {sorted(left_out - found)}"
    assert found - left_out, f"no failpoint begins with {prefixes}"
    return sorted(found - left_out)


def all_points(texts: Mapping[str, str]) -> list[Point]:
    return [point for file, text in texts.items() for point in _points_in(file, text)]


@cache
def _points_in(file: str, text: str) -> tuple[Point, ...]:
    """Every process that collects tests asks for all of them, several times."""
    mentioned = any(word in text for word in ("@write", *REACHING))
    return tuple(_found_in(file, parsed(text))) if mentioned else ()


def _found_in(file: str, tree: ast.Module) -> Iterator[Point]:
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef) and "write" in decorators(node):
            yield Point(declared_name(file, node.name), file, node.lineno, declared=True)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Call) and (name := reached(inner)) is not None:
            yield Point(name, file, inner.lineno, declared=False)


def decorators(function: ast.AsyncFunctionDef | ast.FunctionDef) -> set[str]:
    return {ast.unparse(each).rpartition(".")[2] for each in function.decorator_list}


def reached(call: ast.Call) -> str | None:
    """The literal that a `hit` or `reach` names; None for other calls, and names made elsewhere."""
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name not in REACHING or not call.args:
        return None
    argument = call.args[0]
    return str(argument.value) if isinstance(argument, ast.Constant) else None


def declared_name(file: str, function: str) -> str:
    """As infra/failpoints.declare makes it: library/repo.py, `mark` is library.mark."""
    module = file.removesuffix(".py").replace("/", ".").removeprefix("infra.")
    return f"{module.removesuffix('.repo')}.{function}"
