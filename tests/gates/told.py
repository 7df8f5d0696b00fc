"""Which types of history the source tells, so that each is declared to somebody."""

import ast
import re
from collections.abc import Iterator, Mapping

from points import parsed

_TYPE = re.compile(r"[a-z]+(_[a-z]+)+")
_TELLERS = {"Line", "_line", "_verb", "_of_task"}


def told_types(texts: Mapping[str, str]) -> set[str]:
    """What is given to a line by name, or chosen as its `kind` right before."""
    return {
        name
        for text in texts.values()
        if "Line(" in text
        for node in ast.walk(parsed(text))
        for value in _values(node)
        for name in _names(value)
    }


def _values(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call) and _called(node.func) in _TELLERS:
        yield from node.args
    if isinstance(node, ast.Assign) and any(_called(target) == "kind" for target in node.targets):
        yield node.value


def _called(target: ast.expr) -> str:
    return ast.unparse(target).rpartition(".")[2]


def _names(value: ast.expr) -> Iterator[str]:
    choices = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    for choice in choices:
        if isinstance(choice, ast.Constant) and _TYPE.fullmatch(str(choice.value)):
            yield str(choice.value)
