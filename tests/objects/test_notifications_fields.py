"""Single fields: times, eTags, sizes, metadata, ids."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objects import notification_samples as sample
from safelight.infra.injected import iso
from safelight.objects.notifications.normalise import normalise
from safelight.objects.notifications.notice import Notice
from safelight.objects.notifications.reading import MalformedTime, event_time_ms


def notice(body: object) -> Notice:
    (event,) = normalise(body).events
    return event


def minio_with(**about: Any) -> dict[str, Any]:
    body = sample.minio()
    body["Records"][0]["s3"]["object"].update(about)
    return body


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("1970-01-01T00:00:00Z", 999),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T00:00:01.0Z", 1000),
        ("1970-01-01T00:00:01.123456789Z", 1123),
        ("1970-01-01T00:00:01.9999Z", 1999),
        ("1970-01-01T01:00:01.250+01:00", 1250),
        ("1969-12-31T23:00:01-01:00", 1999),
        ("1970-01-01 00:00:02.000z", 2000),
        ("2026-01-05T09:07:03.120Z", 1767604023120),
        ("2024-02-29T23:59:59.999Z", 1709251199999),
        ("9999-12-31T23:59:59.999Z", 253402300799999),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert event_time_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-05",
        "2026-01-05T09:07:03",  # whose time?
        "2026-01-05T09:07Z",
        "2026-01-05T09:07:03.Z",
        "2026-01-05T09:07:03.1234567890Z",
        "2026-13-05T09:07:03Z",
        "2026-02-29T09:07:03Z",
        "2026-01-05T25:07:03Z",
        "2026-01-05T09:07:60Z",
        "2026-01-05T09:07:03+25:00",
        "0000-01-05T09:07:03Z",
        "0001-01-01T00:00:00+23:59",
        "1969-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59-00:01",
        "2026-01-05T09:07:03.120Z\n",
        " 2026-01-05T09:07:03.120Z",
        "٢٠٢٦-01-05T09:07:03.120Z",
        "1767604023120",
        "NaN",
        "2026-01-05T09:07:03.120Z" * 1000,
    ],
)
def test_malformed_times(text: str) -> None:
    with pytest.raises(MalformedTime):
        event_time_ms(text)


@given(st.integers(0, 253402300799999))
def test_our_own_way_of_writing_times_is_read_back(ms: int) -> None:
    assert event_time_ms(iso(ms)) == ms


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('"abc"', "abc"),
        ("abc", "abc"),
        ('W/"abc-3"', "abc-3"),
        (" abc ", "abc"),
        ("", None),
        ('""', None),
        ("a\x00b", None),
        ("\ud800", None),
        (7, None),
        (["abc"], None),
        (None, None),
    ],
)
def test_etags(given: object, kept: str | None) -> None:
    assert notice(minio_with(eTag=given)).etag == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (0, 0),
        (5, 5),
        ("5", 5),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        ("9" * 19, None),
        ("9" * 5000, None),
        (-1, None),
        ("-1", None),
        ("٥", None),
        (True, None),
        (5.0, None),
        (float("nan"), None),
        (float("inf"), None),
        ({}, None),
    ],
)
def test_sizes(given: object, kept: int | None) -> None:
    assert notice(minio_with(size=given)).size == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [("0aF9", "0aF9"), ("", None), ("xyz", None), (17, None), ("f" * 129, None), ("1\n", None)],
)
def test_sequencers(given: object, kept: str | None) -> None:
    assert notice(minio_with(sequencer=given)).sequencer == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ({}, None),
        ([], None),
        ("idempotencykey", None),
        ({"content-type": "image/png", 7: 7}, None),
        ({"idempotencykey": "k"}, {"idempotencyKey": "k"}),
        ({"IDEMPOTENCYKEY": "k", "imageId": "img_1"}, {"idempotencyKey": "k", "imageId": "img_1"}),
        ({"x-amz-meta-OrganizationId": "acme"}, {"organizationId": "acme"}),
        ({"X-Amz-Meta-Name": "a%20b%E2%9C%93.jpg"}, {"name": "a b✓.jpg"}),
        ({"name": "plain.jpg"}, {"name": "plain.jpg"}),
        ({"name": "%FF", "idempotencykey": "k"}, {"idempotencyKey": "k"}),
        ({"name": "%00"}, None),
        ({"name": "a\x00"}, None),
        ({"idempotencykey": "a\x00b"}, None),
        ({"idempotencykey": "\ud800"}, None),
        ({"idempotencykey": ""}, None),
        ({"idempotencykey": "k" * 5000}, None),
        ({"idempotencykey": ["k"]}, None),
    ],
)
def test_metadata(given: object, kept: dict[str, str] | None) -> None:
    assert notice(minio_with(userMetadata=given)).metadata == kept


def test_a_redelivery_has_the_same_id_by_whatever_road() -> None:
    record = sample.s3()
    ids = {
        notice(body).event_id
        for body in (
            record,
            dict(reversed(record.items())),
            sample.s3_records(record),
            sample.sns(sample.s3_records(record)),
            sample.sqs_polled(sample.sns(sample.s3_records(record))),
        )
    }
    assert len(ids) == 1


def test_what_differs_has_different_ids() -> None:
    bodies = [
        sample.r2(),
        sample.r2(key="acme/other"),
        sample.r2(time="2026-01-05T09:07:03.121Z"),
        sample.r2("CopyObject"),
        sample.r2("DeleteObject"),
        sample.s3(),
        sample.s3(responseElements={"x-amz-request-id": "another"}),
        sample.minio(),
        sample.eventbridge(),
    ]
    assert len({notice(body).event_id for body in bodies}) == len(bodies)


def test_a_notice_can_be_hashed() -> None:
    assert len({notice(sample.minio()), notice(sample.minio())}) == 1
