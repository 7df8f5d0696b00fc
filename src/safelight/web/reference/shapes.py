"""A JSON schema in words and rows, as a table shows it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]
Schemas = Mapping[str, Schema]

_DEEPEST: Final = 4
_REF: Final = "#/components/schemas/"
_SPANS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " character"),
    ("minItems", "maxItems", " item"),
)
_HUGE: Final = 2**53  # a limit beyond what numbers of JSON hold is no news to anybody


@dataclass(frozen=True, slots=True)
class FieldRow:
    """`way` leads to it through what it is part of: `items[].`"""

    name: str
    kind: str
    words: str = ""
    rules: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    way: str = ""
    is_needed: bool = False
    default: str | None = None


def resolved(schema: Schema, schemas: Schemas) -> Schema:
    """What a reference stands for, with what is said beside it."""
    name = str(schema.get("$ref", "")).removeprefix(_REF)
    if not name:
        return schema
    return {**schemas[name], **{key: value for key, value in schema.items() if key != "$ref"}}


def solid(schema: Schema, schemas: Schemas) -> tuple[Schema, bool]:
    """The schema behind `X or null`, and whether null is allowed."""
    found = resolved(schema, schemas)
    options = [one for one in found.get("anyOf", ()) if one.get("type") != "null"]
    if len(options) != 1:
        return found, False
    beside = {key: value for key, value in found.items() if key != "anyOf"}
    return {**resolved(options[0], schemas), **beside}, len(found["anyOf"]) > 1


def row(name: str, schema: Schema, schemas: Schemas, **more: Any) -> FieldRow:
    found, is_nullable = solid(schema, schemas)
    default = found.get("default")
    words = " ".join(str(schema.get("description") or found.get("description") or "").split())
    return FieldRow(
        name,
        _kind(found, schemas) + (" or null" if is_nullable else ""),
        words,
        tuple(rule for rule in _rules(found) if rule not in words),
        tuple(str(one) for one in found.get("enum", ())),
        default=None if default in (None, "", []) else _written(default),
        **more,
    )


def rows(schema: Schema, schemas: Schemas, way: str = "") -> Iterator[FieldRow]:
    """Every field of an object, and of the objects within."""
    found, _ = solid(schema, schemas)
    if found.get("type") == "array":
        yield from rows(found.get("items", {}), schemas, way or "[].")
        return
    needed = found.get("required", ())
    for name, inner in found.get("properties", {}).items():
        yield row(name, inner, schemas, way=way, is_needed=name in needed)
        if way.count(".") < _DEEPEST:
            yield from _within(name, inner, schemas, way)


def _within(name: str, schema: Schema, schemas: Schemas, way: str) -> Iterator[FieldRow]:
    found, _ = solid(schema, schemas)
    if found.get("type") == "array":
        yield from rows(found.get("items", {}), schemas, f"{way}{name}[].")
    elif found.get("properties"):
        yield from rows(found, schemas, f"{way}{name}.")


def _kind(schema: Schema, schemas: Schemas) -> str:
    if schema.get("format") == "binary":
        return "file"
    if "const" in schema:
        return f"always {_written(schema['const'])}"
    if schema.get("type") == "array":
        return f"list of {_many(row('', schema.get('items', {}), schemas).kind)}"
    if options := schema.get("anyOf"):
        return " or ".join(row("", one, schemas).kind for one in options)
    return str(schema.get("type", "anything"))


def _many(kind: str) -> str:
    first, _, rest = kind.partition(" ")
    return kind if first in {"anything", "always"} else f"{first}s {rest}".strip()


def _rules(schema: Schema) -> Iterator[str]:
    for least, most, noun in _SPANS:
        if told := _span(schema.get(least) or 0, schema.get(most), noun):
            yield told
    if pattern := schema.get("pattern"):
        yield f"matches {pattern}"


def _span(least: float, most: float | None, noun: str) -> str | None:
    if most is None or most > _HUGE:
        return f"at least {_number(least)}{_plural(noun, least)}" if least else None
    if least or not noun:
        return f"{_number(least)} to {_number(most)}{_plural(noun, most)}"
    return f"at most {_number(most)}{_plural(noun, most)}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)


def _plural(noun: str, count: float) -> str:
    return f"{noun}s" if noun and count != 1 else noun


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
