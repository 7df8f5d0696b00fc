"""Which failpoints a test dies at: those it names, and those of a list from `points_of`."""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import TypeGuard

from gates.failpoints import Texts, definitions
from points import all_points, parsed


def unkilled(texts: Texts, tests: Texts, excused: Iterable[str]) -> list[str]:
    """Points that no test arms: not by name, not by a list from `points_of`; and excuses for points
    that are gone or are killed."""
    points = {point.name for point in all_points(texts)}
    armed: set[str] = set()
    for text in tests.values():
        armed |= armed_in(parsed(text), points)
    missing = sorted(points - armed - set(excused))
    return missing + [
        f"{name} needs no excuse" for name in excused if name in armed or name not in points
    ]


def armed_in(tree: ast.Module, points: set[str]) -> set[str]:
    """The points that a test module names, or takes from `points_of`."""
    lists = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_list(n)]
    names = definitions(tree)
    left_out = [names[k.value.id] for c in lists for k in c.keywords if _is_known(k.value, names)]
    inside = {id(inner) for node in [*lists, *left_out] for inner in ast.walk(node)}
    words = {
        word.partition("=")[0].strip()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside
        for word in node.value.split(",")
    }
    found = words & points
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            first = str(node.values[0].value)
            found |= {first + word for word in words} & points
    for call in lists:
        found |= _listed(call, names, points)
    return found


def _is_list(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "points_of"


def _is_known(node: ast.expr, names: Mapping[str, ast.AST]) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id in names


def _listed(call: ast.Call, names: Mapping[str, ast.AST], points: set[str]) -> set[str]:
    prefixes = tuple(re.findall(r"[\w.]+", " ".join(_strings(call.args, names))))
    without = set(_strings([keyword.value for keyword in call.keywords], names))
    return {name for name in points if prefixes and name.startswith(prefixes)} - without


def _strings(nodes: Iterable[ast.expr], names: Mapping[str, ast.AST]) -> list[str]:
    return [
        inner.value
        for node in nodes
        for inner in ast.walk(names[node.id] if _is_known(node, names) else node)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    ]
