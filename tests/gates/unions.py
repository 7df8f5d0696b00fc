"""Whoever tells the members of a union apart says so when one is missing: `assert_never` at the end.

mypy then names every place that a new member has to be thought of in. Looked at are functions that
ask two or more members of a declared union (`X = A | B | C`, or an answer `-> A | B`) about one
value with isinstance, and every `match` over classes or members of an enumeration.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping

from points import parsed

Texts = Mapping[str, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def open_ended(
    texts: Texts, exceptions: Iterable[str] = (), unions: list[frozenset[str]] | None = None
) -> list[str]:
    """`exceptions` (`file:function`) treat all members but two alike, whatever they are. `unions`
    are those declared in the texts, unless they are given."""
    found, unneeded = [], set(exceptions)
    for place, what in _open_ended(texts, declared(texts) if unions is None else unions):
        if place in set(exceptions):
            unneeded.discard(place)
        else:
            found.append(f"{place} {what}")
    return found + [f"{place} needs no exception" for place in sorted(unneeded)]


def _open_ended(texts: Texts, unions: list[frozenset[str]]) -> Iterator[tuple[str, str]]:
    for file, text in texts.items():
        for function in ast.walk(parsed(text)):
            if not isinstance(function, Function):
                continue
            sure, place = _asserted(function), f"{file}:{function.name}"
            for subject, asked in _chains(function).items():
                if any(len(asked & union) > 1 for union in unions) and subject not in sure:
                    yield place, f"tells {', '.join(sorted(asked))} apart"
            for node in _within(function):
                if isinstance(node, ast.Match) and _is_over_members(node) and not _ends(node):
                    yield place, f"matches {ast.unparse(node.subject)} without an end"


def declared(texts: Texts) -> list[frozenset[str]]:
    """Unions of classes of ours."""
    classes = {
        node.name
        for text in texts.values()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.ClassDef)
    }
    unions = set()
    for text in texts.values():
        for node in ast.walk(parsed(text)):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(node, Function):
                value = node.returns
            members = frozenset(_members(value)) & classes if value is not None else frozenset()
            if len(members) > 1:
                unions.add(members)
    return list(unions)


def _members(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        yield from _members(value.left)
        yield from _members(value.right)
    elif isinstance(value, ast.Name | ast.Attribute):
        yield ast.unparse(value).rpartition(".")[2]
    elif isinstance(value, ast.Tuple):
        for element in value.elts:
            yield from _members(element)


def _chains(function: Function) -> dict[str, set[str]]:
    """Which classes each value is asked for. One that may be anything is not of a union."""
    anything = {
        argument.arg
        for argument in ast.walk(function.args)
        if isinstance(argument, ast.arg)
        and argument.annotation is not None
        and ast.unparse(argument.annotation) in {"object", "Any"}
    }
    asked: dict[str, set[str]] = {}
    for node in _within(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            subject = ast.unparse(node.args[0])
            if subject not in anything:
                asked.setdefault(subject, set()).update(_members(node.args[1]))
    return asked


def _within(function: Function) -> Iterator[ast.AST]:
    """Without the functions inside, which answer for themselves."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [n for n in ast.iter_child_nodes(node) if not isinstance(n, Function)]


def _asserted(function: Function) -> set[str]:
    return {
        ast.unparse(node.args[0])
        for node in _within(function)
        if isinstance(node, ast.Call) and _is_assert(node)
    }


def _is_assert(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "assert_never" and bool(call.args)


def _is_over_members(match: ast.Match) -> bool:
    """Of classes or of an enumeration; a match over texts or shapes has no end."""
    patterns = [pattern for case in match.cases for pattern in _alternatives(case.pattern)]
    named = [p for p in patterns if not _is_wildcard(p)]
    return bool(named) and all(
        (isinstance(p, ast.MatchClass) and ast.unparse(p.cls)[0].isupper())
        or (isinstance(p, ast.MatchValue) and isinstance(p.value, ast.Attribute))
        for p in named
    )


def _alternatives(pattern: ast.pattern) -> list[ast.pattern]:
    return list(pattern.patterns) if isinstance(pattern, ast.MatchOr) else [pattern]


def _is_wildcard(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _ends(match: ast.Match) -> bool:
    last = match.cases[-1]
    calls = [node for node in ast.walk(last) if isinstance(node, ast.Call)]
    return _is_wildcard(last.pattern) and any(_is_assert(call) for call in calls)
