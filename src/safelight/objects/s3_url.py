"""`s3://bucket?endpoint=…&region=…`: how a bucket is reached, and who tells of its events."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from obstore.store import S3Store as Bucket

from safelight.errors import ConfigurationError

_PARAMETERS = {
    "endpoint", "region", "events", "access_key_id", "secret_access_key", "session_token",
}  # fmt: skip
_CONNECT = timedelta(seconds=5)
_REQUEST = timedelta(minutes=5)
_RETRY = timedelta(seconds=20)  # beyond this the queue tries again, and says so


@dataclass(frozen=True, slots=True)
class S3Url:
    bucket: str
    options: dict[str, str]
    telling: bool  # the bucket's own notifications are the source of events

    def open(self) -> Bucket:
        """What the address does not say, AWS_* variables may."""
        options: dict[str, Any] = dict(self.options)
        plain = options.get("endpoint", "").startswith("http://")
        return Bucket(
            self.bucket,
            virtual_hosted_style_request=False,
            client_options={"allow_http": plain, "connect_timeout": _CONNECT, "timeout": _REQUEST},
            retry_config={"max_retries": 3, "retry_timeout": _RETRY},
            **options,
        )


def parse(url: str) -> S3Url:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    events = options.pop("events", "own")
    unknown = options.keys() - _PARAMETERS
    if parts.scheme != "s3" or not parts.netloc or parts.path.strip("/") or unknown:
        raise ConfigurationError(
            "SAFELIGHT_OBJECT_STORE_URL: write s3://bucket?endpoint=…&region=…; it also takes "
            f"{', '.join(sorted(_PARAMETERS))}."
        )
    if events not in {"own", "bucket"}:
        raise ConfigurationError(
            "SAFELIGHT_OBJECT_STORE_URL: events is `own` (Safelight tells of its own writes) or "
            "`bucket` (the bucket's notifications do)."
        )
    return S3Url(parts.netloc, options, telling=events == "bucket")
