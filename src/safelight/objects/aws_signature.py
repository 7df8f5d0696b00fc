"""Amazon's Signature Version 4: for a POST to the root of a service, which is all that SQS needs,
and in a bucket's address, which whoever has it may ask for a while.

A bucket's client signs what it sends by itself; this is for what somebody else sends, and for
questions that it does not know.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote, urlsplit

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    id: str
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)


def keys_of(given: Mapping[str, str], variables: Mapping[str, str]) -> AwsKeys | None:
    """Those that an address gives, or else the AWS_* variables; a session goes with its keys. None
    where none are written down, as of a machine that has a role of its own."""
    source = given if "access_key_id" in given else {**variables, **given}
    key_id, secret = source.get("access_key_id"), source.get("secret_access_key")
    if not key_id or not secret:
        return None
    return AwsKeys(key_id, secret, source.get("session_token"))


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a signature is good for: one moment, one region and one service."""

    keys: AwsKeys
    region: str
    service: str
    moment: str

    @property
    def text(self) -> str:
        return f"{self.moment[:8]}/{self.region}/{self.service}/aws4_request"

    @property
    def credential(self) -> str:
        return f"{self.keys.id}/{self.text}"

    def sign(self, request: Sequence[str]) -> str:
        asked = sha256("\n".join(request).encode()).hexdigest()
        key = f"AWS4{self.keys.secret}".encode()
        for part in self.text.split("/"):
            key = _mac(key, part)
        return _mac(key, f"{_ALGORITHM}\n{self.moment}\n{self.text}\n{asked}").hex()


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
    scope = _Scope(keys, region, service, _moment(now_ms))
    sent = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    sent["x-amz-date"] = scope.moment
    if keys.session:
        sent["x-amz-security-token"] = keys.session
    names = ";".join(sorted(sent))
    signature = scope.sign([
        "POST", "/", "", *(f"{name}:{sent[name]}" for name in sorted(sent)), "", names,
        sha256(body).hexdigest(),
    ])  # fmt: skip
    by = f"Credential={scope.credential}, SignedHeaders={names}, Signature={signature}"
    return {**sent, "authorization": f"{_ALGORITHM} {by}"}


@dataclass(frozen=True, slots=True)
class BucketSigner:
    """`bucket` is the address that its keys stand below."""

    bucket: str
    region: str
    keys: AwsKeys

    def address(
        self, method: str, key: str, query: Mapping[str, str], *, seconds: int, now_ms: int
    ) -> str:
        scope = _Scope(self.keys, self.region, "s3", _moment(now_ms))
        asked = {
            **query,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": scope.credential,
            "X-Amz-Date": scope.moment,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if self.keys.session:
            asked["X-Amz-Security-Token"] = self.keys.session
        pairs = sorted((quote(name, safe=""), quote(asked[name], safe="")) for name in asked)
        text = "&".join(f"{name}={value}" for name, value in pairs)
        where = f"{self.bucket}/{quote(key, safe='/')}" if key else self.bucket
        parts = urlsplit(where)
        host = f"host:{parts.netloc}"
        signature = scope.sign([method, parts.path, text, host, "", "host", "UNSIGNED-PAYLOAD"])
        return f"{where}?{text}&X-Amz-Signature={signature}"


def _moment(now_ms: int) -> str:
    return f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%dT%H%M%SZ}"


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
