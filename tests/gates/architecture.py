"""Rules about the source itself that the linters cannot see."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from points import parsed

Texts = Mapping[str, str]
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
Function = ast.FunctionDef | ast.AsyncFunctionDef


def too_long(texts: Texts) -> list[str]:
    found = []
    for file, text in texts.items():
        if len(text.splitlines()) > LONGEST_FILE:
            found.append(file)
        for node in ast.walk(parsed(text)):
            if isinstance(node, Function):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    found.append(f"{file}:{node.name}")
    return found


def names_with_two_meanings(texts: Texts) -> list[str]:
    """A public class has its name for itself, also against aliases of types. The same alias of the
    same thing in two files is one meaning."""
    places: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file, text in texts.items():
        for name, meaning in _public_types(parsed(text)):
            places[name][meaning or file].append(file)
    return [
        f"{name}: {', '.join(sorted(f for files in meanings.values() for f in files))}"
        for name, meanings in sorted(places.items())
        if len(meanings) > 1
    ]


def _public_types(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Classes, and aliases with what they stand for."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, None
        if isinstance(node, ast.Assign) and _is_alias(node.value):
            for target in node.targets:
                if isinstance(target, ast.Name) and _is_type_name(target.id):
                    yield target.id, ast.unparse(node.value)


def _is_alias(value: ast.expr) -> bool:
    return isinstance(value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute)


def _is_type_name(name: str) -> bool:
    return name[0].isupper() and not name.isupper() and len(name) > 1


def records_in_repos(texts: Texts) -> list[str]:
    """A record beside the driver pulls the driver in wherever it is used."""
    return [
        f"{file}:{node.name}"
        for file, text in texts.items()
        if file.endswith("repo.py")
        for node in parsed(text).body
        if isinstance(node, ast.ClassDef) and not _is_error(node)
    ]


def _is_error(node: ast.ClassDef) -> bool:
    """What a statement refuses is told by the driver's error, so it may stand beside it."""
    ends = ("Error", "Exception", "SafelightError", "Conflict", "NotFound", "Unavailable")
    return any(ast.unparse(base).endswith(ends) for base in node.bases)


# What else a declaration of jobs may stand on, since its kinds are made from it.
_MADE_FROM = {"generations/jobs.py": "safelight.generations.providers.registry"}


def heavy_jobs(texts: Texts, graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Declarations of jobs that import who handles them, or anything that does work."""
    allowed = {"jobs", "lifecycle", "entry", "settings", "errors"}
    found = []
    for file in texts:
        parts = file.removesuffix(".py").split("/")
        if parts[-1] != "jobs" or parts[0] == "infra":
            continue
        for imported in graph[".".join(["safelight", *parts])]:
            last = imported.rpartition(".")[2]
            if last not in allowed and imported != _MADE_FROM.get(file):
                found.append(f"{file} imports {imported}")
    return found
