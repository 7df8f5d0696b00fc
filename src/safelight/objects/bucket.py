"""A bucket's address, and asking it: within a time, and with its errors in our words."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from obstore.exceptions import BaseError, PreconditionError
from obstore.store import S3Store as Bucket

from safelight.errors import ConfigurationError, Overwritten, RangeNotSatisfiable
from safelight.objects.aws_signature import BucketSigner, keys_of
from safelight.objects.store import StoreUnavailable

T = TypeVar("T")
_PARAMETERS = {
    "endpoint", "region", "events", "access_key_id", "secret_access_key", "session_token",
    "storage_class", "sse", "sse_kms_key_id",
}  # fmt: skip
_SSE = {"AES256", "aws:kms"}
_PREFIX_PART = re.compile(r"(?!\.)[A-Za-z0-9_.-]+")
_CONNECT = timedelta(seconds=5)
_REQUEST = timedelta(minutes=5)
_RETRY = timedelta(seconds=20)  # of reads; beyond this the queue tries again, and says so
# The bucket's own word; of an answer without a body there is the status alone.
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z -]+)")


@dataclass(frozen=True, slots=True)
class S3Url:
    bucket: str
    options: dict[str, str]
    telling: bool  # the bucket's own notifications are the source of events
    prefix: str = ""  # of all keys, ending with a slash; nobody but the bucket sees it
    storage_class: str | None = None

    @property
    def where(self) -> str:
        """For people, without credentials."""
        place = f"{self.bucket}/{self.prefix}".rstrip("/")
        return f"{place} at {self.options.get('endpoint', 'Amazon S3')}"

    def signer(self, variables: Mapping[str, str]) -> BucketSigner | None:
        """`variables` are the AWS_* ones. None where the credentials are not written down, as those
        of a machine's own role."""
        keys = keys_of(self.options, variables)
        if keys is None:
            return None
        region = self.options.get("region") or variables.get("region", "us-east-1")
        endpoint = self.options.get("endpoint", f"https://s3.{region}.amazonaws.com").rstrip("/")
        where = f"{endpoint}/{self.bucket}"
        return BucketSigner(where, region, keys)

    def open(self, *, repeat: bool) -> Bucket:
        """What the address does not say, AWS_* variables may. `repeat`: send again by itself."""
        options: dict[str, Any] = dict(self.options)
        plain = options.get("endpoint", "").startswith("http://")
        return Bucket(
            self.bucket,
            prefix=self.prefix.rstrip("/") or None,
            virtual_hosted_style_request=False,
            client_options={"allow_http": plain, "connect_timeout": _CONNECT, "timeout": _REQUEST},
            retry_config={"max_retries": 3 if repeat else 0, "retry_timeout": _RETRY},
            **options,
        )


def parse_url(url: str) -> S3Url:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    unknown = options.keys() - _PARAMETERS
    prefix = parts.path.strip("/")
    if parts.scheme != "s3" or not parts.netloc or unknown or not _is_prefix(prefix):
        raise ConfigurationError(
            "SAFELIGHT_OBJECT_STORE_URL: write s3://bucket?endpoint=…&region=…, or "
            "s3://bucket/prefix?… with letters, digits, - _ . and single slashes in the prefix; it "
            f"also takes {', '.join(sorted(_PARAMETERS))}."
        )
    events = options.pop("events", "own")
    if events not in {"own", "bucket"}:
        raise ConfigurationError(
            "SAFELIGHT_OBJECT_STORE_URL: events is `own` (Safelight tells of its own writes) or "
            "`bucket` (the bucket's notifications do)."
        )
    storage_class = options.pop("storage_class", None)
    sse = options.pop("sse", None)
    if sse is not None:
        options["server_side_encryption"] = sse
    if sse not in {None, *_SSE} or ("sse_kms_key_id" in options and sse != "aws:kms"):
        raise ConfigurationError(
            "SAFELIGHT_OBJECT_STORE_URL: sse is `AES256` (the bucket's own keys) or `aws:kms`, and "
            "only with the latter there is an sse_kms_key_id."
        )
    below = f"{prefix}/" if prefix else ""
    return S3Url(parts.netloc, options, events == "bucket", below, storage_class)


def _is_prefix(prefix: str) -> bool:
    plain = all(_PREFIX_PART.fullmatch(part) for part in prefix.split("/"))
    return not prefix or plain


@asynccontextmanager
async def limited(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise StoreUnavailable("The object store does not answer.") from error


async def asked(request: Awaitable[T], missing: str | None = None) -> T:
    """The bucket's answer, its errors in our words, except that something is not there, not as it
    was or not so long."""
    try:
        return await request
    except FileNotFoundError as error:
        if missing is None:
            raise
        raise StoreUnavailable(missing) from error
    except TimeoutError:
        raise
    except PreconditionError as error:
        raise Overwritten from error
    except (BaseError, OSError) as error:
        text = str(error)
        code = _CODE.search(text) or _STATUS.search(text)  # which stand far behind
        if code and code[1] == "InvalidRange":
            raise RangeNotSatisfiable from error
        first_line = text.partition("\n")[0][:300]
        raise StoreUnavailable.because(first_line, code[1] if code else None) from error
