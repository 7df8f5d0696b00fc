"""The API's own description, as the pages of the reference show it. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

from safelight.accounts.describe import describe, needs
from safelight.accounts.guard import (
    Allow,
    AllowById,
    Guard,
    GuardedRoute,
    MetricsReader,
    OpenToEveryone,
    OperatorOnly,
    SignedIn,
    UserOnly,
)
from safelight.web.reference.codes import known_codes
from safelight.web.reference.examples import example
from safelight.web.reference.shapes import FieldRow, Schema, Schemas, row, rows

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
# What cannot be taken back, or ends what somebody has begun.
_GRAVE: Final = frozenset({
    "delete", "discard", "give-up", "withdraw", "cancel", "reject", "logout", "blocklist",
    "pictures", "retention",
})  # fmt: skip
_READS_BY_POST: Final = frozenset({"known", "download"})  # too long a question for an address
_CODES: Final = re.compile(r"`([A-Z][A-Z_]{3,})`")
_ABOUT: Final = {
    "ingest": "Bytes come in, and what became of each.",
    "events": "A bucket tells of what happened in it.",
    "library": "Images with their labels: looked for, shown, deleted.",
    "generations": "Images and clips made by models.",
    "artifacts": "What generations made.",
    "approvals": "Questions that a person decides, once.",
    "submissions": "Images are checked, approved and published.",
    "live": "What happens, as it happens: by socket or by polling.",
    "accounts": "People, their roles, and tokens for programs.",
    "quotas": "What an organization may use, and uses.",
    "operator": "How the server is, and what it has given up.",
    "sign in": "A session, for people.",
}


@dataclass(frozen=True, slots=True)
class MediaBody:
    """A body as it is sent, or an answer as it comes."""

    media_type: str
    fields: tuple[FieldRow, ...]
    words: str
    example: Any
    is_bytes: bool

    @property
    def json(self) -> str:
        return json.dumps(self.example, indent=2, ensure_ascii=False)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.fields if one.kind == "file")


@dataclass(frozen=True, slots=True)
class ReferenceAnswer:
    status: str
    phrase: str
    words: str
    parts: tuple[MediaBody, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    place: str  # path, query or header
    row: FieldRow


@dataclass(frozen=True)
class Operation:
    id: str
    tag: str
    method: str
    path: str
    summary: str
    words: str
    who: str
    guard: Guard
    parameters: tuple[Parameter, ...]
    bodies: tuple[MediaBody, ...]
    answers: tuple[ReferenceAnswer, ...]

    @property
    def body(self) -> MediaBody | None:
        return self.bodies[0] if self.bodies else None

    @property
    def is_open(self) -> bool:
        return isinstance(self.guard, OpenToEveryone)

    @property
    def can_be_tried(self) -> bool:
        """With the session that shows the page; another credential nobody has at hand."""
        return self.is_open or isinstance(
            self.guard, Allow | AllowById | SignedIn | UserOnly | OperatorOnly | MetricsReader
        )

    @property
    def changes(self) -> bool:
        return self.method not in {"GET", "HEAD"} and self._last not in _READS_BY_POST

    @property
    def is_grave(self) -> bool:
        return self.method == "DELETE" or (self.changes and self._last in _GRAVE)

    @property
    def _last(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def codes(self) -> list[str]:
        """Those that its kind has, then those that its words name."""
        found = [] if self.is_open else ["UNAUTHENTICATED"]
        if not self.is_open and (self.changes or self.who not in {"viewer", "signed in"}):
            found.append("FORBIDDEN")
        if "{" in self.path:
            found.append("NOT_FOUND")
        if self.parameters or self.body:
            found.append("INVALID_REQUEST")
        if self.body and self.body.media_type == JSON:
            found += ["INVALID_JSON", "UNSUPPORTED_MEDIA_TYPE"]
        if self.body:
            found.append("FILE_TOO_LARGE")
        named = [code for code in _CODES.findall(self.words) if code in known_codes()]
        return [*found, *dict.fromkeys(named)]

    @cached_property
    def trial(self) -> str:
        """What the element that tries it has to know."""
        body = self.body
        told = {
            "id": self.id,
            "method": self.method,
            "path": self.path,
            "changes": self.changes,
            "grave": self.is_grave,
            "summary": self.summary,
            "parameters": [
                {
                    "in": one.place,
                    "name": one.row.name,
                    "needed": one.row.is_needed,
                    "choices": one.row.choices,
                    "kind": one.row.kind,
                    "default": one.row.default,
                }
                for one in self.parameters
            ],
            "type": body.media_type if body else None,
            "files": body.files if body else (),
            "example": body.json if body and body.media_type == JSON else None,
        }
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class OperationGroup:
    slug: str
    title: str
    words: str
    operations: tuple[Operation, ...]


def groups(schema: Schema, routes: Iterable[GuardedRoute]) -> list[OperationGroup]:
    """In the order in which the description has them."""
    guarded = list(routes)
    guards = {(one.path, one.method.lower()): one.guard for one in guarded}
    told = describe(dict(schema), guarded)
    schemas, found = told["components"]["schemas"], dict[str, list[Operation]]()
    for path, operations in told["paths"].items():
        for method, operation in operations.items():
            guard = guards.get((path, method)) or OpenToEveryone()
            read = _operation(path, method, operation, guard, schemas)
            found.setdefault(operation["tags"][0], []).append(read)
    return [
        OperationGroup(slug_of(tag), tag[:1].upper() + tag[1:], _ABOUT.get(tag, ""), tuple(read))
        for tag, read in found.items()
    ]


def slug_of(tag: str) -> str:
    return tag.replace(" ", "-")


def who(guard: Guard) -> str:
    """Whom it is for, in a word or two."""
    if isinstance(guard, Allow | AllowById):
        return str(guard.role)
    words: dict[type[Guard], str] = {
        OpenToEveryone: "everybody",
        SignedIn: "signed in",
        UserOnly: "people",
        OperatorOnly: "operator",
        MetricsReader: "operator",
    }
    return words.get(type(guard), "own credential")


def _operation(
    path: str, method: str, told: Mapping[str, Any], guard: Guard, schemas: Schemas
) -> Operation:
    paragraphs = str(told.get("description", "")).split("\n\n")
    return Operation(
        id=told["operationId"],
        tag=told["tags"][0],
        method=method.upper(),
        path=path,
        summary=told["summary"],
        words="\n\n".join(one for one in paragraphs if one != needs(guard)),
        who=who(guard),
        guard=guard,
        parameters=tuple(_parameters(told.get("parameters", ()), schemas)),
        bodies=tuple(_parts(told.get("requestBody", {}).get("content", {}), schemas)),
        answers=tuple(_answers(told["responses"], schemas)),
    )


def _parameters(told: Iterable[Mapping[str, Any]], schemas: Schemas) -> Iterator[Parameter]:
    for one in told:
        schema = {**one["schema"], "description": one.get("description", "")}
        read = row(one["name"], schema, schemas, is_needed=bool(one.get("required")))
        # Nobody can write null into an address.
        yield Parameter(one["in"], replace(read, kind=read.kind.removesuffix(" or null")))


def _parts(content: Mapping[str, Any], schemas: Schemas) -> Iterator[MediaBody]:
    for media_type, told in content.items():
        schema = told.get("schema", {})
        words = str(schema.get("description") or _described(schema, schemas))
        is_bytes = schema.get("format") == "binary"
        yield MediaBody(
            media_type,
            tuple(rows(schema, schemas)),
            " ".join(words.split()),
            None if is_bytes else example(schema, schemas),
            is_bytes,
        )


def _described(schema: Schema, schemas: Schemas) -> str:
    name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
    return str(schemas.get(name, {}).get("description", ""))


def _answers(told: Mapping[str, Any], schemas: Schemas) -> Iterator[ReferenceAnswer]:
    """Refusals look alike everywhere; one page tells of them."""
    for status in sorted(status for status in told if "XX" not in status):
        words = told[status].get("description", "")
        parts = tuple(_parts(told[status].get("content", {}), schemas))
        yield ReferenceAnswer(
            status,
            HTTPStatus(int(status)).phrase,
            "" if words == "Successful Response" else words,
            parts,
        )
