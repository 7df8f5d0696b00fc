"""What an answer or a body may look like: made from its schema, with values as they are in life.
Pure."""

from typing import Any, Final

from safelight import __version__
from safelight.web.reference.shapes import Schema, Schemas, solid

_IMAGE: Final = "img_2026-03-14_7k2m9qxw4v8tn1bd"
_TIME: Final = "2026-03-14T09:26:53.589Z"
_UUID: Final = "019cebf5-6a35-7c52-9f0e-3b8d4a1c7e90"
_CHECKSUM: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_FINGERPRINT: Final = "8f3c1e0f7a5b2d49-1c7e90d2a4b6f835"
_DEEPEST: Final = 6
ORGANIZATION: Final = "⟦organization⟧"  # whoever looks puts theirs there

# By the names of fields and parameters.
BY_NAME: Final[dict[str, Any]] = {
    "approvalId": "apr_5w8k1t9n3b7m2q4x6v0z",
    "approval_id": "apr_5w8k1t9n3b7m2q4x6v0z",
    "artifact": _UUID,
    "artifactId": _UUID,
    "artifact_id": _UUID,
    "blockedLabels": "wine bottle",
    "checksum": _CHECKSUM,
    "checksums": _CHECKSUM,
    "classification": "AI_TIMEOUT",
    "classificationLabel": "lakeside",
    "classificationModel": "efficientnet-lite0@1",
    "classificationScore": 0.87,
    "code": "CONFLICT",
    "contentType": "image/webp",
    "cost": 0.0123,
    "count": 3,
    "createdBy": "ada",
    "decidedBy": "ada",
    "description": "For the spring catalogue.",
    "dominantColor": "#6f8a94",
    "engine": "ok",
    "entry_id": "blk_2q4x6v0z5w8k1t9n3b7m",
    "error": "The request does not fit the present state.",
    "fingerprint": _FINGERPRINT,
    "fingerprints": _FINGERPRINT,
    "generationId": _UUID,
    "generation_id": _UUID,
    "database": "ok",
    "directory": "/var/lib/safelight/ingest",
    "height": 3024,
    "host": "camera-hub",
    "idempotencyKey": _IMAGE,
    "imageId": _IMAGE,
    "image_id": _IMAGE,
    "job_id": 4711,
    "label": "lakeside",
    "limit": 50,
    "madeBy": "ada",
    "message": "It looks like a picture that is on the blocklist.",
    "mimeType": "image/jpeg",
    "model": "studio/horizon",
    "models": "studio/horizon",
    "name": "harbour.jpg",
    "names": "harbour.jpg",
    "node_id": "node_9n3b7m2q4x6v0z5w8k1t",
    "note": "Not ours to show.",
    "org": ORGANIZATION,
    "organization": ORGANIZATION,
    "organizationId": ORGANIZATION,
    "provider": "studio",
    "reason": "The licence is missing.",
    "reclassification_id": "rcl_1t9n3b7m2q4x6v0z5w8k",
    "requestedBy": "ada",
    "objectStore": "ok",
    "roles": "serve",
    "score": 0.87,
    "seq": 1042,
    "signInLink": "https://images.example.org/login?code=…",
    "size": "320",
    "sizeBytes": 2418733,
    "stage": "TIER1_SCANNING",
    "state": "PUBLISHED",
    "submission": "sub_3b7m2q4x6v0z5w8k1t9n",
    "submissionId": "sub_3b7m2q4x6v0z5w8k1t9n",
    "submission_id": "sub_3b7m2q4x6v0z5w8k1t9n",
    "standing": "alive",
    "status": "ok",
    "subject": "upload:harbour.jpg",
    "tag": "spring",
    "tags": "spring",
    "title": "Harbour at dawn",
    "token": "slt_…",
    "token_id": "tok_0z5w8k1t9n3b7m2q4x6v",
    "upload": "harbour.jpg",
    "username": "ada",
    "version": __version__,
    "width": 4032,
}
# Of what `id` is, by the name of its shape.
_IDS: Final = {
    "Approval": BY_NAME["approvalId"],
    "Blocked": BY_NAME["entry_id"],
    "DeadLetter": BY_NAME["job_id"],
    "Image": _IMAGE,
    "NewToken": BY_NAME["token_id"],
    "Node": BY_NAME["node_id"],
    "Received": BY_NAME["submission"],
    "Reclassif": BY_NAME["reclassification_id"],
    "Role": "usr_7m2q4x6v0z5w8k1t9n3b",
    "Caller": "usr_7m2q4x6v0z5w8k1t9n3b",
    "Member": "usr_7m2q4x6v0z5w8k1t9n3b",
    "Settled": BY_NAME["job_id"],
    "Submission": BY_NAME["submission"],
    "Token": BY_NAME["token_id"],
}
_TIMES: Final = ("At", "Time", "at", "hour", "Since", "RetryAfter", "since", "until")
_LIKELY: Final = frozenset({
    "done", "ready", "STORED", "PUBLISHED", "approved", "member", "info", "FAILED", "succeeded",
})  # fmt: skip


def example(schema: Schema, schemas: Schemas, name: str = "", depth: int = 0) -> Any:
    """One value that the schema allows."""
    found, is_nullable = solid(schema, schemas)
    for told in (*found.get("examples", ()), *([found["example"]] if "example" in found else ())):
        return told
    if "const" in found:
        return found["const"]
    if choices := found.get("enum"):
        return next((one for one in choices if one in _LIKELY), choices[0])
    if depth > _DEEPEST or (is_nullable and name == "nextCursor"):
        return None if is_nullable else {}
    kinds = {"object": _object, "array": _list}
    if make := kinds.get(str(found.get("type"))):
        return make(found, schemas, name, depth)
    return _plain(found, schemas, name)


def _object(schema: Schema, schemas: Schemas, name: str, depth: int) -> dict[str, Any]:
    del name
    fields, needed = schema.get("properties", {}), schema.get("required", ())
    made = {key: example(fields[key], schemas, key, depth + 1) for key in fields if key in needed}
    title = str(schema.get("title", ""))
    if named := next((value for start, value in _IDS.items() if title.startswith(start)), None):
        made |= {"id": named} if type(made.get("id")) is type(named) else {}
    return made


def _list(schema: Schema, schemas: Schemas, name: str, depth: int) -> list[Any]:
    return [example(schema.get("items", {}), schemas, name, depth + 1)]


def _plain(schema: Schema, schemas: Schemas, name: str) -> Any:
    del schemas
    kind, value = schema.get("type"), BY_NAME.get(name)
    fits: dict[str, tuple[type, ...]] = {
        "string": (str,), "integer": (int,), "number": (int, float),
    }  # fmt: skip
    if value is not None and isinstance(value, fits.get(str(kind), ())):
        return value
    if kind == "string":
        return _text(schema, name)
    if kind in {"integer", "number"}:
        return int(max(schema.get("minimum", 0), min(3, schema.get("maximum", 3))))
    return {"boolean": False, "null": None}.get(str(kind), {})


def _text(schema: Schema, name: str) -> str:
    if schema.get("format") == "binary":
        return "(bytes)"
    if name.endswith(_TIMES):
        return _TIME
    return {"id": _UUID, "kind": "library.upload", "type": "upload_stored"}.get(name, "…")
