"""Whether each statement on an organization's rows says whose they are, so that organizations could be
spread over several databases without a statement being changed (docs/scaling.md, cells).

A statement is read query by query: what stands in parentheses and is a query is one of its own, and so
is each part of a UNION. A query is bound to one organization where a condition or a list of columns names
it, or where a condition names a key that belongs to one organization: an id that was handed out once, a
job's, an object's key, which begins with the organization.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gates import sql
from gates.ownership import named
from points import parsed

_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\)", re.DOTALL)
_COLUMN = re.compile(r"^\s+organization\s+text", re.MULTILINE)
_QUERY = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE|PERFORM)\b")
_SET = re.compile(r"\b(?:UNION(?: ALL)?|EXCEPT|INTERSECT)\b")
_IS_SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b")
_CONDITION = re.compile(r"\b(?:WHERE|ON|USING|AND)\b.*", re.DOTALL)
_BINDS = r"\s*(?:=|<>|IN\b|>|<|,|\)|IS NOT DISTINCT FROM)"
# Types of rows and their numbers are no rows.
_NO_ROWS = re.compile(r"\w+%ROWTYPE|\b(?:next|curr)val\('\w+'\)|'\w+_seq'|::\w+|\bSETOF \w+")
_INSERT = re.compile(r"\bINSERT\s+INTO\b")


@dataclass(frozen=True, slots=True)
class Statement:
    place: str  # the file, and the function or constant that it stands in
    text: str


def of_organizations(migrations: str) -> set[str]:
    """The tables that have such a column, whenever they were made."""
    return {name for name, body in _TABLE.findall(migrations) if _COLUMN.search(body)}


def unbound(
    statements: Iterable[Statement], tables: Iterable[str], keys: Mapping[str, str]
) -> list[str]:
    """Each query on a table that is not bound, as `place table`. `keys` has, by table, what besides the
    organization names a row of one organization."""
    tables = set(tables)
    found = []
    for statement in statements:
        for query in queries(_NO_ROWS.sub("", sql.uncommented(statement.text))):
            for table in sorted(named(query, tables)):
                if not _is_bound(query, keys.get(table, "")):
                    found.append(f"{statement.place} {table}")
    return sorted(set(found))


def beyond(found: Iterable[str], explained: Iterable[str]) -> list[str]:
    """What nobody explains, and explanations that nothing needs."""
    found, explained = set(found), set(explained)
    unneeded = [f"{place} needs no explanation" for place in explained - found]
    return sorted(found - explained) + sorted(unneeded)


def names_a_variable(statement: str) -> bool:
    """Whether a table's name is put in at run time."""
    return re.search(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+_(?!\w)", statement) is not None


def _is_bound(query: str, keys: str) -> bool:
    if _INSERT.search(query):
        return re.search(r"\borganization\b", query) is not None
    condition = _CONDITION.search(query)
    names = "|".join(filter(None, ["organization", keys]))
    return condition is not None and bool(
        re.search(rf"\b(?:{names})\b\)?{_BINDS}", condition[0])
        or re.search(rf"(?:=|ANY \()\s*(?:\w+\.)?(?:{names})\b", condition[0])
    )


def queries(text: str) -> Iterator[str]:
    """Every query of a text; what is no query in parentheses stays with the one around it."""
    around, inner = _taken_apart(text)
    for each in inner:
        yield from queries(each)
    for piece in around.split(";"):
        yield from _SET.split(piece)


def _taken_apart(text: str) -> tuple[str, list[str]]:
    """The text without the queries in its parentheses, and those."""
    around, inner, at = "", [], 0
    while at < len(text):
        end = _closing(text, at) if text[at] == "(" else at
        inside = text[at + 1 : end]
        if end > at and _QUERY.match(inside):
            inner.append(inside)
            around += " "
            at = end + 1
        else:
            around += text[at]
            at += 1
    return around, inner


def _closing(text: str, at: int) -> int:
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return end
    return at


def in_functions(texts: Mapping[str, str]) -> Iterator[Statement]:
    for function in sql.functions(texts).values():
        yield Statement(f"sql/{function.owner}.sql {function.name}", function.body)


def in_python(texts: Mapping[str, str]) -> Iterator[Statement]:
    """The strings that are statements, with the constants of their module in them."""
    for file, text in texts.items():
        constants = {
            target.id: _text(node.value, {})
            for node in parsed(text).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for name, node in _named_parts(parsed(text)):
            for string in _strings(node):
                whole = _text(string, constants)
                if _IS_SQL.search(whole) and not _is_docstring(string, node):
                    yield Statement(f"{file} {name}", whole)


def _named_parts(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target), node


def _strings(node: ast.AST) -> Iterator[ast.expr]:
    inner: set[int] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            inner |= {id(part) for part in ast.walk(each)} - {id(each)}
            yield each
        elif (
            isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in inner
        ):
            yield each


def _text(node: ast.expr, constants: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_text(value, constants) for value in values)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return constants.get(name) or "_"
        case _:
            return "_"


def _is_docstring(string: ast.expr, node: ast.AST) -> bool:
    return any(isinstance(each, ast.Expr) and each.value is string for each in ast.walk(node))
