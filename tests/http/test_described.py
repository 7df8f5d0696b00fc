"""The API's description tells what is answered, for every route."""

from typing import Any

import pytest

from described import description

OPERATIONS = [
    (method, path, operation)
    for path, operations in description()["paths"].items()
    for method, operation in operations.items()
]
NAMES = [f"{method} {path}" for method, path, _ in OPERATIONS]


@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=lambda part: str(part)[:60]
)
def test_every_operation_says_what_it_answers(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    told = {status: answer for status, answer in operation["responses"].items() if status < "4"}
    assert told, f"{method} {path} has no good answer"
    for status, answer in told.items():
        if status in {"204", "303", "304"}:
            continue
        bodies = answer.get("content", {})
        assert bodies or "empty" in answer["description"].lower(), f"{method} {path} {status}"
        assert all(body.get("schema") for body in bodies.values()), f"{method} {path} {status}"


@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=lambda part: str(part)[:60]
)
def test_refusals_have_one_shape(method: str, path: str, operation: dict[str, Any]) -> None:
    shapes = {
        answer["content"]["application/json"]["schema"]["$ref"]
        for status, answer in operation["responses"].items()
        if status in {"422", "4XX", "5XX"}
    }
    assert shapes == {"#/components/schemas/Problem"}, f"{method} {path}"
