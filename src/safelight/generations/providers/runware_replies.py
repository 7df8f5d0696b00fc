"""The words of Runware's answers and webhooks, which share one envelope. Pure.

Its error codes are announced as unstable, so they are read by family; the raw code is shown.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from safelight.generations.lifecycle import Media, TaskErrorCode
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    ProviderAnswer,
    ProviderTrouble,
    Refused,
    Report,
    media_from,
    one_line,
)
from safelight.generations.providers.wire import Reply

QUESTION = "getResponse"  # the type of a task that asks about another
MOST_REPORTS = 100  # a vendor sends one; a generation has twenty tasks at most
_URLS = ("imageURL", "videoURL")
_DATA_URIS = ("imageDataURI", "videoDataURI")
_BASE64 = ("imageBase64Data", "videoBase64Data")
_FACTS = ("seed", "cost", "NSFWContent", "imageUUID", "videoUUID")
_SPENT = re.compile(r"credit|quota|balance|payment", re.IGNORECASE)
_NOT_FOUND = re.compile(r"(notfound|expired)$|^taskcancelled$", re.IGNORECASE)
_BUSY = re.compile(r"ratelimit|toomanyrequests", re.IGNORECASE)
_PASSING = re.compile(
    r"timeout|inferenceerror|noavailable|unavailable|^provider|internalserver", re.IGNORECASE
)

ReplyItem = Mapping[str, Any]


def entries_of(payload: Any, name: str) -> list[ReplyItem]:
    found = payload.get(name) if isinstance(payload, Mapping) else None
    if not isinstance(found, list):
        return []
    return [entry for entry in found if isinstance(entry, Mapping)]


def errors_of(payload: Any) -> list[ReplyItem]:
    """In all three places they have been met: `errors`, `error`, and inside `data`."""
    errors = entries_of(payload, "errors")
    if isinstance(payload, Mapping) and isinstance(payload.get("error"), Mapping):
        about = {name: payload.get(name) for name in ("taskUUID", "taskType")}
        errors.append({**payload["error"], **about})
    for entry in entries_of(payload, "data"):
        if entry.get("status") == "error":
            inner = entry.get("error")
            words = inner if isinstance(inner, Mapping) else {"message": inner}
            errors.append({**words, "taskUUID": entry.get("taskUUID")})
    return errors


def media_of(entry: ReplyItem) -> Media | None:
    facts = {name: entry[name] for name in _FACTS if name in entry}
    for name in (*_URLS, *_DATA_URIS):
        if isinstance(entry.get(name), str):
            return media_from(entry[name], facts)
    for name in _BASE64:
        if isinstance(entry.get(name), str):
            return media_from(f"data:;base64,{entry[name]}", facts)
    return None


def error_outcome(
    error: ReplyItem, reply: Reply | None = None, *, asked: bool = False
) -> ProviderAnswer:
    """In a webhook (no reply) every error is final: the vendor has given up. When `asked`, one that
    tells of the task is how that ended, and will be said again each time."""
    code = str(error.get("code") or "error")
    words = one_line(error.get("message"), "no reason given")
    message = f"Runware: {words} ({code})"
    if _SPENT.search(code):
        return Refused.because(message, TaskErrorCode.PROVIDER_ERROR)
    busy = bool(_BUSY.search(code)) or (reply is not None and reply.status == 429)  # noqa: PLR2004
    passing = busy or bool(_PASSING.search(code)) or bool(reply and reply.trouble("Runware"))
    if reply is None:
        return Refused.because(
            message, TaskErrorCode.PROVIDER_ERROR if passing else TaskErrorCode.REFUSED
        )
    if passing:
        ended = asked and not busy and reply.fine and _tells_of_a_task(error)
        sent = not busy and not ended
        return ProviderTrouble(message, reply.retry_after, sent=sent, busy=busy, ended=ended)
    return Refused.because(message)


def _tells_of_a_task(error: ReplyItem) -> bool:
    """A question carries its task's id too, so that an error about the question has it as well."""
    return error.get("taskUUID") is not None and error.get("taskType") != QUESTION


def is_not_found(error: ReplyItem) -> bool:
    return bool(_NOT_FOUND.search(str(error.get("code") or "")))


def reports_of(payload: Any) -> list[Report]:
    return list(islice(_reports(payload), MOST_REPORTS))


def _reports(payload: Any) -> Iterator[Report]:
    for entry in entries_of(payload, "data"):
        if (media := media_of(entry)) is not None:
            yield Report(_id(entry), Finished(media, _id(entry)))
        elif entry.get("status") != "error":
            yield Report(_id(entry), Accepted(_id(entry)))
    for error in errors_of(payload):
        yield Report(_id(error), error_outcome(error))


def _id(entry: ReplyItem) -> str | None:
    found = entry.get("taskUUID")
    return found if isinstance(found, str) else None
