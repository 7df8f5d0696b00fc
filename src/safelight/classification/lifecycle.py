"""What a run is for and what it found. Its states are the library's (library/entry.py). Pure."""

from dataclasses import dataclass

# What the world is told, and the fields of each message.
MESSAGES = {
    "classification_updated": (
        "name",
        "idempotencyKey",
        "classificationLabel",
        "classificationScore",
        "classifiedAt",
        "classificationModel",
    ),
    "classification_error": ("name", "idempotencyKey", "error", "final"),
}


@dataclass(frozen=True, slots=True)
class RunTarget:
    """Which upload, and which of its runs, a result is for."""

    organization: str
    name: str
    idempotency_key: str
    run: int


@dataclass(frozen=True, slots=True)
class Result:
    label: str
    score: float
    model: str
    at: int
