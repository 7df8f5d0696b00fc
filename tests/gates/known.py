"""What servers keep in mind of a credential is forgotten when anything changes it.

Two halves. Elsewhere: every table that credentials are read from has triggers that say so, whoever
writes to it. Here: accounts writes to these tables in its units of work only, each of which is news
in this process before anybody is answered.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from gates import ownership, sql
from points import decorators, parsed

REPO = "accounts/repo.py"
READS = ("token_with", "session_user")  # what guards ask, and keep
_EVENTS = ("INSERT", "UPDATE", "DELETE")
_TRIGGER = re.compile(
    r"CREATE TRIGGER (?P<name>\w+) AFTER (?P<events>\w+(?: OR \w+)*) ON (?P<table>\w+) FOR EACH ROW\b"
    r"[^;]*\bEXECUTE FUNCTION credentials_changed\(\)"
)
_DROPPED = re.compile(r"DROP TRIGGER (?:IF EXISTS )?(\w+) ON (\w+)")
IN_A_UNIT = ("unit.connection", "connection")


def tables(texts: Mapping[str, str], owned: Iterable[str]) -> set[str]:
    """Those that credentials are read from."""
    tree = parsed(texts[REPO])
    constants = {
        target.id: ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name in READS:
            used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            text = " ".join(
                [*_strings(node), *(constants[n] for n in sorted(used & set(constants)))]
            )
            found |= ownership.named(text, owned)
    return found


def unwatched(
    migrations: str, texts: Mapping[str, str], owned: Iterable[str], exceptions: Iterable[str]
) -> list[str]:
    """Changes that nobody is told of, as `table EVENT`."""
    text = sql.uncommented(migrations)
    dropped = set(_DROPPED.findall(text))
    watched = {
        f"{match['table']} {event}"
        for match in _TRIGGER.finditer(text)
        if (match["name"], match["table"]) not in dropped
        for event in match["events"].split(" OR ")
    }
    wanted = {f"{table} {event}" for table in tables(texts, owned) for event in _EVENTS}
    unneeded = [f"{each} needs no exception" for each in exceptions if each not in wanted - watched]
    return sorted(wanted - watched - set(exceptions)) + unneeded


def outside_units(
    texts: Mapping[str, str], watched: Iterable[str], exceptions: Iterable[str]
) -> list[str]:
    """Where accounts writes to such a table otherwise than in a unit, as `file function`; and
    transactions of its own."""
    found = {
        f"{file} {_called(call)}"
        for file in texts
        for call in changes(file, texts, watched)
        if ast.unparse(call.args[0]) not in IN_A_UNIT
    }
    found |= {
        f"{file} {ast.unparse(call)}"
        for file in texts
        if _is_a_user(file)
        for call in _calls(texts[file])
        if _called(call) in ("transaction", "connection")
    }
    unneeded = [f"{each} needs no exception" for each in exceptions if each not in found]
    return sorted(found - set(exceptions)) + unneeded


def changes(file: str, texts: Mapping[str, str], watched: Iterable[str]) -> list[ast.Call]:
    """Where a file calls a write of accounts to such a table."""
    if not _is_a_user(file):
        return []
    writes = _writes(texts, watched)
    return [
        call
        for call in _calls(texts[file])
        if _called(call) in writes and ast.unparse(call.func).rpartition(".")[0].endswith("repo")
    ]


def _is_a_user(file: str) -> bool:
    return file.startswith("accounts/") and not file.endswith("repo.py")


def _calls(text: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(parsed(text)) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _writes(texts: Mapping[str, str], watched: Iterable[str]) -> set[str]:
    """Writes of accounts that name such a table, wherever in a statement; rather one too many."""
    word = re.compile(rf"\b({'|'.join(sorted(watched))})\b")
    return {
        node.name
        for file, text in texts.items()
        if file.startswith("accounts/") and file.endswith("repo.py")
        for node in parsed(text).body
        if isinstance(node, ast.AsyncFunctionDef)
        and "write" in decorators(node)
        and any(word.search(each) for each in _strings(node))
    }


def _strings(function: ast.AsyncFunctionDef) -> list[str]:
    """But what it says about itself."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return [
        str(node.value)
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
