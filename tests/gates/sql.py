"""The functions in sql/*.sql and the tables in migrations/, as far as the gates look into them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from points import SOURCE

_FUNCTION = re.compile(
    r"CREATE OR REPLACE FUNCTION (?P<name>\w+)\s*\((?P<head>.*?)\$\$(?P<body>.*?)\$\$", re.DOTALL
)
_WRITES = re.compile(
    r"\b(INSERT\s+INTO|UPDATE\s+\w+(\s+(AS\s+)?\w+)?\s+SET|DELETE\s+FROM)\b", re.IGNORECASE
)
_CALL = re.compile(r"\b([a-z_][a-z_0-9]*)\s*\(")
_SECTION = re.compile(r"^-- ==== (\w+) ====$", re.MULTILINE)
_TABLE = re.compile(r"CREATE (?:TABLE|SEQUENCE) (?:IF NOT EXISTS )?(\w+)")


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    owner: str  # the file's name
    head: str
    body: str


@cache
def sql_texts() -> Mapping[str, str]:
    return {path.stem: path.read_text() for path in sorted((SOURCE / "sql").glob("*.sql"))}


@cache
def baseline() -> str:
    return "\n".join(path.read_text() for path in sorted((SOURCE / "migrations").glob("*.sql")))


def functions(texts: Mapping[str, str]) -> dict[str, Function]:
    found = {}
    for owner, text in texts.items():
        for match in _FUNCTION.finditer(text):
            body = uncommented(match["body"])
            found[match["name"]] = Function(match["name"], owner, match["head"], body)
    return found


def writing_functions(texts: Mapping[str, str]) -> set[str]:
    """Those that change rows, themselves or through one they call."""
    known = functions(texts)
    writing = {name for name, function in known.items() if writes(function.body)}
    while more := {n for n, f in known.items() if n not in writing and writing & called(f.body)}:
        writing |= more
    return writing


@cache
def shipped_writing() -> frozenset[str]:
    return frozenset(writing_functions(sql_texts()))


def writes(statement: str) -> bool:
    """`FOR UPDATE` locks and writes nothing."""
    return _WRITES.search(statement) is not None


def called(statement: str) -> set[str]:
    return set(_CALL.findall(statement))


def uncommented(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


def owners_of_tables(text: str) -> dict[str, str]:
    """Each table (and named sequence) with the section it stands in."""
    parts = _SECTION.split(text)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    return {table: owner for owner, body in sections for table in _TABLE.findall(uncommented(body))}


def made_tables(text: str) -> list[str]:
    return _TABLE.findall(uncommented(text))
