"""Addresses of a bucket that carry our signature: whoever has one may ask what it says, a while.

Amazon's Signature Version 4, in the address. The client signs what it sends by itself; this is for
what somebody else sends, and for questions that it does not know.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote, urlsplit

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class BucketSigner:
    """`bucket` is the address that its keys stand below."""

    bucket: str
    region: str
    key_id: str
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)

    def address(
        self, method: str, key: str, query: Mapping[str, str], *, seconds: int, now_ms: int
    ) -> str:
        moment = f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%dT%H%M%SZ}"
        scope = f"{moment[:8]}/{self.region}/s3/aws4_request"
        asked = {
            **query,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.key_id}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if self.session:
            asked["X-Amz-Security-Token"] = self.session
        pairs = sorted((quote(name, safe=""), quote(asked[name], safe="")) for name in asked)
        text = "&".join(f"{name}={value}" for name, value in pairs)
        where = f"{self.bucket}/{quote(key, safe='/')}" if key else self.bucket
        parts = urlsplit(where)
        request = [method, parts.path, text, f"host:{parts.netloc}", "", "host", "UNSIGNED-PAYLOAD"]
        content = [_ALGORITHM, moment, scope, sha256("\n".join(request).encode()).hexdigest()]
        signature = _mac(self._key(scope), "\n".join(content)).hex()
        return f"{where}?{text}&X-Amz-Signature={signature}"

    def _key(self, scope: str) -> bytes:
        """Good for one day, one region and one service."""
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = _mac(key, part)
        return key


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
