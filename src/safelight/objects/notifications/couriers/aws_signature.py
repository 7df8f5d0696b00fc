"""Amazon's Signature Version 4, for a POST to the root of a service: all that SQS needs."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    id: str
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)


def signed(
    headers: Mapping[str, str],
    body: bytes,
    *,
    service: str,
    region: str,
    keys: AwsKeys,
    now_ms: int,
) -> dict[str, str]:
    """The headers, `host` among them, with what the service knows us by."""
    moment = f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%dT%H%M%SZ}"
    sent = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    sent["x-amz-date"] = moment
    if keys.session:
        sent["x-amz-security-token"] = keys.session
    names = ";".join(sorted(sent))
    request = [
        "POST", "/", "", *(f"{name}:{sent[name]}" for name in sorted(sent)), "", names,
        sha256(body).hexdigest(),
    ]  # fmt: skip
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    content = [_ALGORITHM, moment, scope, sha256("\n".join(request).encode()).hexdigest()]
    signature = _mac(_key(keys.secret, scope), "\n".join(content)).hex()
    by = f"Credential={keys.id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**sent, "authorization": f"{_ALGORITHM} {by}"}


def _key(secret: str, scope: str) -> bytes:
    """Good for one day, one region and one service."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _mac(key, part)
    return key


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
