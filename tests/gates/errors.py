"""Every way to say no is in use, in the documents and in some test."""

import ast
from collections.abc import Iterable, Mapping

from gates.package import subclasses
from points import parsed
from safelight.errors import SafelightError

Texts = Mapping[str, str]
Errors = Iterable[type[SafelightError]]


def ours() -> list[type[SafelightError]]:
    """All of them, from every module of the package."""
    found: set[type[SafelightError]] = {SafelightError, *subclasses(SafelightError)}
    return sorted(
        (kind for kind in found if kind.__module__.startswith("safelight.")),
        key=lambda kind: (kind.code, kind.__module__, kind.__name__),
    )


def unused(errors: Errors, texts: Texts) -> list[str]:
    """Classes that nobody raises, maps to or refines."""
    used = {name for text in texts.values() for name in _used(parsed(text))}
    return [kind.__name__ for kind in errors if kind.__name__ not in used]


def undocumented(errors: Errors, page: str) -> list[str]:
    return [
        f"{kind.__name__} ({kind.code})"
        for kind in errors
        if f"| `{kind.code}` | {kind.status} | {kind.default_message()} |" not in page
    ]


def untested(errors: Errors, tests: Texts) -> list[str]:
    """Codes that no test names: not the code, and none of its classes."""
    return unnamed(errors, words_of(tests))


def words_of(tests: Texts) -> set[str]:
    return {word for text in tests.values() for word in _words(parsed(text))}


def unnamed(errors: Errors, words: set[str]) -> list[str]:
    named: dict[str, bool] = {}
    for kind in errors:
        named[kind.code] = named.get(kind.code, False) or bool({kind.code, kind.__name__} & words)
    return [code for code, tested in named.items() if not tested]


def _used(tree: ast.Module) -> set[str]:
    """Names besides imports and a class's own."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    return {node.id if isinstance(node, ast.Name) else node.attr for node in nodes}


def _words(tree: ast.Module) -> set[str]:
    texts = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for part in node.value.replace(",", " ").split()
    }
    return texts | _used(tree)
