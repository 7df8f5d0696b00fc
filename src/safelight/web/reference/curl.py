"""An operation as a line for a shell. Pure."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from safelight.web.reference.document import FORM, JSON, Operation
from safelight.web.reference.examples import BY_NAME, ORGANIZATION

ORIGIN: Final = "⟦origin⟧"  # whoever looks puts theirs there
_NEXT: Final = " \\\n     "


def curl(operation: Operation) -> str:
    first, *others = _parts(operation)
    return f"{first} {_NEXT.join(others)}"


def _parts(operation: Operation) -> Iterator[str]:
    method, body = operation.method, operation.body
    is_usual = method == "GET" or (method == "POST" and body is not None)
    yield "curl" if is_usual else f"curl -X {method}"
    if not operation.is_open:
        token = "EVENTS_TOKEN" if operation.tag == "events" else "SAFELIGHT_TOKEN"
        yield f'-H "Authorization: Bearer ${token}"'
    if body and body.media_type == FORM:
        yield from (f"-F {name}=@photo.jpg" for name in body.files)
    elif body and body.media_type == JSON:
        yield '-H "Content-Type: application/json"'
        yield f"-d {_quoted(body.json)}"
    if any(part.is_bytes for answer in operation.answers for part in answer.parts):
        yield "-OJ" if operation.path.endswith("/download") else "-o picture"
    yield _address(operation)


def _address(operation: Operation) -> str:
    path, query = operation.path, []
    for one in operation.parameters:
        name, value = one.row.name, str(BY_NAME.get(one.row.name, "…"))
        written = value if value == ORGANIZATION else quote(value, safe="…")
        if one.place == "path":
            path = path.replace(f"{{{name}}}", written)
        elif one.place == "query" and one.row.is_needed:
            query.append(f"{name}={written}")
    address = ORIGIN + path
    return _quoted(f"{address}?{'&'.join(query)}") if query else address


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"
