"""A bucket's address, and asking it: within a time, and with its errors in our words."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store as Bucket

from safelight.errors import ConfigurationError
from safelight.objects.store import StoreUnavailable

T = TypeVar("T")
_PARAMETERS = {
    "endpoint", "region", "events", "access_key_id", "secret_access_key", "session_token",
}  # fmt: skip
_CONNECT = timedelta(seconds=5)
_REQUEST = timedelta(minutes=5)
_RETRY = timedelta(seconds=20)  # of reads; beyond this the queue tries again, and says so
_CODE = re.compile(r"<Code>(\w+)</Code>")


@dataclass(frozen=True, slots=True)
class S3Url:
    bucket: str
    options: dict[str, str]
    telling: bool  # the bucket's own notifications are the source of events

    @property
    def where(self) -> str:
        """For people, without credentials."""
        return f"{self.bucket} at {self.options.get('endpoint', 'Amazon S3')}"

    def open(self, *, repeat: bool) -> Bucket:
        """What the address does not say, AWS_* variables may. `repeat`: send again by itself."""
        options: dict[str, Any] = dict(self.options)
        plain = options.get("endpoint", "").startswith("http://")
        return Bucket(
            self.bucket,
            virtual_hosted_style_request=False,
            client_options={"allow_http": plain, "connect_timeout": _CONNECT, "timeout": _REQUEST},
            retry_config={"max_retries": 3 if repeat else 0, "retry_timeout": _RETRY},
            **options,
        )


def parse_url(url: str) -> S3Url:
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


@asynccontextmanager
async def limited(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise StoreUnavailable("The object store does not answer.") from error


async def asked(request: Awaitable[T], missing: str | None = None) -> T:
    """The bucket's answer, its errors in our words, except that something is not there."""
    try:
        return await request
    except FileNotFoundError as error:
        if missing is None:
            raise
        raise StoreUnavailable(missing) from error
    except TimeoutError:
        raise
    except (BaseError, OSError) as error:
        text = str(error)
        code = _CODE.search(text)  # the bucket's own, which stands far behind
        first_line = text.partition("\n")[0][:300]
        raise StoreUnavailable.because(first_line, code[1] if code else None) from error
