"""A table is named only by its owner: the feature whose section it has in migrations/.

Others ask the owner, by a function of its repo or of its file in sql/. `exceptions` are places
that must not, with the reason; one that nobody needs any more is reported too.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from gates import sql
from points import decorators, parsed

# Sections that hold a table of somebody else's.
_MOVED = {"kv": "kv"}
# Where the tables of an infra section are named; a feature's are in its repos and its sql file.
_HOMES = {
    "queue": ("infra/queue/repo.py", "infra/queue/watched.py", "sql/queue.sql"),
    "kv": ("infra/kv.py", "sql/kv.sql"),
    "identity": ("infra/identity.py",),
    "stretches": ("infra/stretches.py", "sql/stretches.sql"),
    "history": ("infra/activity.py", "infra/feed.py", "sql/activity.sql"),
}
_IS_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WITH|PERFORM|FROM|JOIN)\b")
_KIND = re.compile(r"job_(?:enqueue|cancel|lives|reschedule)\(\s*'([^']+)'")


def foreign(
    texts: Mapping[str, str],
    functions: Mapping[str, str],
    tables: Mapping[str, str],
    exceptions: Iterable[str],
) -> list[str]:
    """Places that name somebody else's table, as `file table`."""
    found = sorted(set(_foreign(texts, functions, tables)))
    unneeded = [f"{name} needs no exception" for name in exceptions if name not in found]
    return [place for place in found if place not in set(exceptions)] + unneeded


def _foreign(
    texts: Mapping[str, str], functions: Mapping[str, str], tables: Mapping[str, str]
) -> Iterator[str]:
    owners = {table: _MOVED.get(table, owner) for table, owner in tables.items()}
    for file, statement in _statements(texts, functions):
        for table in named(statement, owners):
            if not _is_home(file, owners[table]):
                yield f"{file} {table}"


def _statements(
    texts: Mapping[str, str], functions: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for owner, text in functions.items():
        yield f"sql/{owner}.sql", sql.uncommented(text)
    for file, text in texts.items():
        for statement in _strings(parsed(text)):
            if _IS_SQL.search(statement):
                yield file, sql.uncommented(statement)


def _strings(tree: ast.Module) -> Iterator[str]:
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "_" for p in node.values)
        elif isinstance(node, ast.Constant) and id(node) not in inner:
            yield str(node.value)


def named(statement: str, tables: Iterable[str]) -> set[str]:
    """The tables that a statement reads, writes, or takes the row type of."""
    name = "|".join(sorted(tables, key=len, reverse=True))
    places = (
        rf"\b(?:INTO|UPDATE)\s+({name})\b",
        rf"\b(?:FROM|JOIN|USING|ONLY|TABLE|SETOF)\s+({name})\b(?!\()",
        rf"\bFROM\s+\w+(?:\s+(?:AS\s+)?\w+)?\s*,\s*({name})\b(?!\()",
        rf"\bOUT\s+\w+\s+({name})\b",
        rf"::({name})\b(?!\[)",
        rf"\b({name})%ROWTYPE",
        rf"\b({name})_(?:id_)?seq\b",
    )
    return {match for place in places for match in re.findall(place, statement)}


def _is_home(file: str, owner: str) -> bool:
    if owner in _HOMES:
        return file in _HOMES[owner]
    own = file.startswith(f"{owner}/") and file.endswith("repo.py")
    return own or file == f"sql/{owner}.sql"


def undeclared_kinds(functions: Mapping[str, str], kinds: Iterable[str]) -> list[str]:
    """Job kinds that SQL spells and nobody declares."""
    declared = set(kinds)
    return [
        f"sql/{owner}.sql {kind}"
        for owner, text in functions.items()
        for kind in _KIND.findall(sql.uncommented(text))
        if kind not in declared
    ]


def history_not_last(functions: Mapping[str, str]) -> list[str]:
    """Functions with a statement behind `activity_append`, which makes the organization wait."""
    found = []
    for name, function in sql.functions(functions).items():
        _, called, rest = function.body.partition("activity_append(")
        if called and name != "activity_append" and not _ends(_after_call(rest)):
            found.append(name)
    return found


def _after_call(text: str) -> str:
    depth = 1
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[at + 1 :]
    return ""


def _ends(rest: str) -> bool:
    """Nothing but ends of blocks and the answer."""
    return (
        re.fullmatch(r"[\s;]*(?:END(?:\s+(?:IF|LOOP))?\s*;?\s*|RETURN\s+[\w']+\s*;\s*)*", rest)
        is not None
    )


def history_by_hand(texts: Mapping[str, str]) -> list[str]:
    """Python that writes or announces history past the unit of work."""
    found = []
    for file, text in texts.items():
        if file in {"infra/activity.py", "infra/queue/jobs.py"}:
            continue
        for statement in _strings(parsed(text)):
            if re.search(r"\b(unit_close|unit_finish|activity_append)\s*\(", statement):
                found.append(f"{file} calls {statement.strip()[:40]}")
        for node in ast.walk(parsed(text)):
            if not isinstance(node, ast.Call):
                continue
            function, argument = ast.unparse(node.func), "".join(map(ast.unparse, node.args[:1]))
            if function.endswith("announce") and argument in {"'activity'", "ACTIVITY"}:
                found.append(f"{file}:{node.lineno} announces history")
            if function == "activity.append":
                found.append(f"{file}:{node.lineno} appends history")
    return found


def foreign_writes(texts: Mapping[str, str], exceptions: Iterable[str]) -> list[str]:
    """Calls of another feature's writes, as `file repo.function`: a feature changes its own rows, and
    asks the services of others. The infra's (values, jobs) are everybody's."""
    writes = {
        f"safelight.{file.removesuffix('.py').replace('/', '.')}.{node.name}"
        for file, text in texts.items()
        if file.endswith("repo.py") and not file.startswith("infra/")
        for node in parsed(text).body
        if isinstance(node, ast.AsyncFunctionDef) and "write" in decorators(node)
    }
    found = set()
    for file, text in texts.items():
        means = _imported(parsed(text))
        for node in ast.walk(parsed(text)):
            name = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
            first, dot, rest = name.partition(".")
            whole = means.get(first, first) + dot + rest
            if whole in writes and whole.split(".")[1] != file.partition("/")[0]:
                found.add(f"{file} {whole.removeprefix('safelight.')}")
    unneeded = [f"{name} needs no exception" for name in exceptions if name not in found]
    return sorted(found - set(exceptions)) + unneeded


def _imported(tree: ast.Module) -> dict[str, str]:
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
