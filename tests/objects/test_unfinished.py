"""Uploads in parts whose process was killed leave nothing in the bucket for ever."""

from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from botocore.auth import S3SigV4QueryAuth  # type: ignore[import-untyped]  # it has no stubs
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # likewise
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # likewise

from objects.stores import Bucket, Watch, fresh_bucket
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError
from safelight.infra.injected import SystemClock
from safelight.objects.aws_signature import AwsKeys, BucketSigner
from safelight.objects.bucket import parse_url
from safelight.objects.unfinished import DAY_MS, AbortUnfinished
from seaweed import Seaweed

MOMENT = 1_800_000_000_000


@pytest.fixture
def bucket(weed: Seaweed) -> Bucket:
    return fresh_bucket(weed)


def begin(bucket: Bucket, key: str) -> None:
    bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)


def unfinished(bucket: Bucket) -> set[str]:
    found = bucket.client.list_multipart_uploads(Bucket=bucket.name)
    return {upload["Key"] for upload in found.get("Uploads", [])}


def aborting(bucket: Bucket, later_ms: int, prefix: str = "", **parameters: str) -> AbortUnfinished:
    url = parse_url(bucket.url(prefix, **parameters))
    signer = url.signer({})
    assert signer
    return AbortUnfinished(signer, url.prefix, Watch(SystemClock().now_ms() + later_ms))


async def test_what_is_a_day_old_goes(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that is under way is younger, and what lies elsewhere is not ours."""
    keys = {"acme/größe & co.jpg", "artifacts/a", "acme/in/folders", "loose"}
    for key in keys:
        begin(bucket, key)
    young = aborting(bucket, 0)
    assert await young.run() == 0
    assert unfinished(bucket) == keys
    monkeypatch.setattr("safelight.objects.unfinished.DAY_MS", -60_000)
    assert await aborting(bucket, 0).run() == 2
    assert unfinished(bucket) == {"acme/in/folders", "loose"}
    assert await aborting(bucket, 0).run() == 0


async def test_below_a_prefix(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("mine/acme/a.jpg", "yours/acme/a.jpg", "acme/a.jpg"):
        begin(bucket, key)
    monkeypatch.setattr("safelight.objects.unfinished.DAY_MS", -60_000)
    assert await aborting(bucket, 0, "mine").run() == 1
    assert unfinished(bucket) == {"yours/acme/a.jpg", "acme/a.jpg"}


async def test_cut_off(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safelight.objects.unfinished.DAY_MS", -60_000)
    begin(bucket, "acme/a.jpg")
    armed = failpoints.arm("objects.abort_upload", "raise@1")
    with pytest.raises(FailpointError):
        await aborting(bucket, 0).run()
    assert armed.passes
    assert await aborting(bucket, 0).run() == 1
    assert unfinished(bucket) == set()


async def test_a_bucket_that_does_not_let_us(bucket: Bucket) -> None:
    with structlog.testing.capture_logs() as logs:
        assert await aborting(bucket, 0, session_token="wrong", secret_access_key="x").run() == 0
    assert "set a rule that does" in logs[-1]["event"]


def test_a_day_is_longer_than_any_put() -> None:
    assert DAY_MS == 86_400_000


@pytest.mark.parametrize("session", [None, "session/+="])
@pytest.mark.parametrize("key", ["", "acme/größe & co+%.jpg"])
def test_signatures_are_amazons(
    session: str | None, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = BucketSigner(
        "https://s3.example.org:8333/images", "eu-west-1", AwsKeys("id", "se/cret", session)
    )
    query = {
        "uploads": "",
        "prefix": "a b/ü",
        "response-content-disposition": "inline; x*=UTF-8''é",
    }
    ours = signer.address("GET", key, query, seconds=300, now_ms=MOMENT)
    plain, _, _ = signer.address("GET", key, {}, seconds=300, now_ms=MOMENT).partition("?")
    request: Any = AWSRequest("GET", plain, params=query)
    now = datetime.fromtimestamp(MOMENT / 1000, UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now.replace(tzinfo=None))
    S3SigV4QueryAuth(Credentials("id", "se/cret", session), "s3", "eu-west-1", 300).add_auth(
        request
    )
    assert _signature(ours) == _signature(request.url)


def _signature(address: str) -> str:
    return address.rpartition("X-Amz-Signature=")[2]
