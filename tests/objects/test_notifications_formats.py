"""Every store's and courier's shape becomes the same event."""

import json
from typing import Any

import pytest

from objects import notification_samples as sample
from safelight.objects.events import Action
from safelight.objects.notifications.normalise import normalise
from safelight.objects.notifications.notice import Confirmation, Notice
from safelight.objects.notifications.registry import FORMATS

NOON = 1767604023120
END_OF_SECOND = 1767604023999
SEQUENCER = "0055AED6DCD90281E5"


def notice(body: object) -> Notice:
    found = normalise(body)
    assert (found.ignored, found.rejected) == ([], [])
    (event,) = found.events
    return event


CREATED = {
    "r2": sample.r2(),
    "r2 as text": json.dumps(sample.r2()),
    "r2 in a list": [sample.r2()],
    "r2 pulled": sample.pulled(sample.r2()),
    "r2 pulled, the result alone": sample.pulled(sample.r2())["result"],
    "r2 pulled, the messages alone": sample.pulled(sample.r2())["result"]["messages"],
    "r2 forwarded": sample.forwarded(sample.r2()),
    "r2 forwarded as text": sample.forwarded(json.dumps(sample.r2())),
    "s3": sample.s3_records(sample.s3()),
    "s3 with its prefix": sample.s3_records(sample.s3("s3:ObjectCreated:Put")),
    "s3 record alone": sample.s3(),
    "minio": sample.minio(),
    "seaweedfs": sample.seaweedfs("create"),
    "seaweedfs overwritten": sample.seaweedfs("update"),
    "ceph": sample.s3_records(sample.ceph("ObjectCreated:Put")),
    "sns": sample.sns(sample.s3_records(sample.s3())),
    "sns handed to a function": {
        "Records": [
            {"EventSource": "aws:sns", "Sns": sample.sns(sample.s3_records(sample.s3()))},
        ]
    },
    "sqs polled": sample.sqs_polled(sample.s3_records(sample.s3())),
    "sqs handed to a function": sample.sqs_records(sample.s3_records(sample.s3())),
    "sqs around sns": sample.sqs_polled(sample.sns(sample.s3_records(sample.s3()))),
    "function around sqs around sns": [
        sample.sqs_records(sample.sns(sample.s3_records(sample.s3())))
    ],
    "eventbridge": sample.eventbridge(),
    "sqs around eventbridge": sample.sqs_polled(sample.eventbridge()),
    "sqs around sns around eventbridge": sample.sqs_polled(sample.sns(sample.eventbridge())),
}


@pytest.mark.parametrize("shape", CREATED)
def test_created(shape: str) -> None:
    event = notice(CREATED[shape])
    assert event.action is Action.CREATED
    assert event.key == sample.KEY
    assert event.organization == "acme"
    assert event.bucket == "pictures"
    assert (event.etag, event.size) == (sample.ETAG, 1234)
    whole_seconds = "eventbridge" in shape or "seaweedfs" in shape
    assert event.event_time == (END_OF_SECOND if whole_seconds else NOON)


@pytest.mark.parametrize(
    ("body", "source", "sequencer"),
    [
        (sample.r2(), "r2", None),
        (sample.s3(), "s3", SEQUENCER),
        (sample.eventbridge(), "s3", SEQUENCER),
        (sample.sns(sample.s3()), "s3", SEQUENCER),
        (sample.minio(), "minio", "1887C1A2B3C4D5E6"),
        (sample.s3(eventSource="ceph:s3"), "s3", SEQUENCER),
    ],
)
def test_the_source_is_the_store_and_not_the_courier(
    body: object, source: str, sequencer: str | None
) -> None:
    event = notice(body)
    assert (event.source, event.sequencer) == (source, sequencer)


def test_minio_tells_the_metadata() -> None:
    assert notice(sample.minio()).metadata == {
        "idempotencyKey": sample.MARKER,
        "organizationId": "acme",
        "name": "höhe 1+1.jpg",
    }


def test_minio_records_without_their_source() -> None:
    body = sample.minio()
    del body["Records"][0]["eventSource"]
    assert notice(body).source == "minio"


def test_seaweedfs_tells_the_metadata() -> None:
    assert notice(sample.seaweedfs("create")).metadata == {
        "idempotencyKey": sample.MARKER,
        "name": "höhe 1+1.jpg",
    }


def test_a_deletion_of_seaweedfs_comes_right_after_what_it_deleted() -> None:
    """It is trusted without asking the bucket, which answers a little longer as if nothing were."""
    made, gone = notice(sample.seaweedfs("create")), notice(sample.seaweedfs("delete"))
    assert (made.source, made.event_time) == ("seaweedfs", END_OF_SECOND)
    assert gone.event_time == END_OF_SECOND + 1


def test_an_empty_object_of_minio_has_no_size() -> None:
    body = sample.minio()
    del body["Records"][0]["s3"]["object"]["size"]
    assert notice(body).size is None


DELETED = {
    "r2": sample.r2("DeleteObject"),
    "r2 lifecycle": sample.r2("LifecycleDeletion"),
    "r2 lifecycle pulled": sample.pulled(sample.r2("LifecycleDeletion")),
    "s3": sample.s3("ObjectRemoved:Delete"),
    "s3 marker": sample.s3("ObjectRemoved:DeleteMarkerCreated"),
    "s3 lifecycle": sample.s3("LifecycleExpiration:Delete"),
    "s3 lifecycle marker": sample.s3("s3:LifecycleExpiration:DeleteMarkerCreated"),
    "ceph": sample.ceph("ObjectRemoved:Delete"),
    "ceph lifecycle": sample.ceph("ObjectLifecycle:Expiration:Current"),
    "ceph lifecycle, by the name it was asked for": sample.ceph(
        "s3:ObjectLifecycle:Expiration:Current"
    ),
    "ceph lifecycle in Amazon's words": sample.ceph("LifecycleExpiration:Delete"),
    "minio": sample.minio("s3:ObjectRemoved:Delete"),
    "minio marker": sample.minio("s3:ObjectRemoved:DeleteMarkerCreated"),
    "minio all versions": sample.minio("s3:ObjectRemoved:DeleteAllVersions"),
    "seaweedfs": sample.seaweedfs("delete"),
    "eventbridge": sample.eventbridge(
        "Object Deleted", reason="DeleteObject", **{"deletion-type": "Permanently Deleted"}
    ),
    "eventbridge marker": sample.eventbridge(
        "Object Deleted",
        reason="Lifecycle Expiration",
        **{"deletion-type": "Delete Marker Created"},
    ),
    "sqs around sns": sample.sqs_polled(sample.sns(sample.s3("ObjectRemoved:Delete"))),
}


@pytest.mark.parametrize("shape", DELETED)
def test_deleted(shape: str) -> None:
    event = notice(DELETED[shape])
    assert (event.action, event.key) == (Action.DELETED, sample.KEY)


@pytest.mark.parametrize("action", ["PutObject", "CopyObject", "CompleteMultipartUpload"])
def test_r2_creations(action: str) -> None:
    assert notice(sample.r2(action)).action is Action.CREATED


@pytest.mark.parametrize("kind", ["Put", "Post", "Copy", "CompleteMultipartUpload"])
def test_s3_creations(kind: str) -> None:
    assert notice(sample.s3(f"ObjectCreated:{kind}")).action is Action.CREATED


IGNORED = {
    "an unknown action": (sample.r2("GetObject"), "UNKNOWN_ACTION"),
    "an unknown action with odd fields": (sample.r2("Lock", key=7, time=None), "UNKNOWN_ACTION"),
    "tags": (sample.s3("ObjectTagging:Put"), "UNKNOWN_ACTION"),
    "access": (sample.minio("s3:ObjectAccessed:Get"), "UNKNOWN_ACTION"),
    "minio's tags": (sample.minio("s3:ObjectCreated:PutTagging"), "UNKNOWN_ACTION"),
    "minio's tags going": (sample.minio("s3:ObjectCreated:DeleteTagging"), "UNKNOWN_ACTION"),
    "minio's retention": (sample.minio("s3:ObjectCreated:PutRetention"), "UNKNOWN_ACTION"),
    "minio's legal hold": (sample.minio("s3:ObjectCreated:PutLegalHold"), "UNKNOWN_ACTION"),
    "ceph's old versions": (
        sample.ceph("ObjectLifecycle:Expiration:NonCurrent"),
        "UNKNOWN_ACTION",
    ),
    "ceph's uploads that ended": (
        sample.ceph("ObjectLifecycle:Expiration:AbortMultipartUpload"),
        "UNKNOWN_ACTION",
    ),
    "ceph's other storage": (sample.ceph("ObjectLifecycle:Transition:Current"), "UNKNOWN_ACTION"),
    "seaweedfs's directory": (sample.seaweedfs_directory(), "RESERVED_KEY"),
    "seaweedfs's part of an upload": (sample.seaweedfs_part(), "RESERVED_KEY"),
    "seaweedfs beside its buckets": (
        sample.seaweedfs("create") | {"key": "/etc/cat.jpg"},
        "RESERVED_KEY",
    ),
    "an expired marker": (sample.minio("s3:LifecycleDelMarkerExpiration:Delete"), "UNKNOWN_ACTION"),
    "an unknown kind of event": (sample.eventbridge("Object Tags Added"), "UNKNOWN_ACTION"),
    "another service": (sample.eventbridge() | {"source": "aws.ec2"}, "UNKNOWN_ACTION"),
    "a test": (sample.s3_test(), "TEST_EVENT"),
    "a test through sns": (sample.sns(sample.s3_test()), "TEST_EVENT"),
    "a test through sqs": (sample.sqs_polled(sample.s3_test()), "TEST_EVENT"),
    "a subscription without address": (
        sample.sns_confirmation() | {"SubscribeURL": 1},
        "CONFIRMATION",
    ),
    "its end": (sample.sns("Bye.", "UnsubscribeConfirmation"), "CONFIRMATION"),
    "an artifact": (sample.r2(key="artifacts/art_1"), "RESERVED_KEY"),
    "a thumbnail with a bad time": (sample.r2(key="thumbnails/a/b", time="soon"), "RESERVED_KEY"),
    "a rendition": (sample.s3(key="renditions/a"), "RESERVED_KEY"),
}


@pytest.mark.parametrize("case", IGNORED)
def test_ignored(case: str) -> None:
    body, code = IGNORED[case]
    found = normalise(body)
    assert (found.events, found.rejected) == ([], [])
    assert [item.code for item in found.ignored] == [code]
    assert found.ignored[0].reason


def test_a_confirmation_keeps_its_address_for_a_person() -> None:
    for kind in ("SubscriptionConfirmation", "UnsubscribeConfirmation"):
        asked = sample.sns_confirmation() | {"Type": kind}
        found = normalise(asked)
        address = asked["SubscribeURL"]
        assert found.confirmations == [Confirmation(kind, asked["TopicArn"], address)]
        assert (found.ignored, found.rejected, found.events) == ([], [], [])


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


REJECTED = {
    "no slash": (sample.r2(key="cat.png"), "MALFORMED_KEY"),
    "an empty name": (sample.r2(key="acme/"), "MALFORMED_KEY"),
    "two slashes": (sample.r2(key="acme/a/b"), "MALFORMED_KEY"),
    "an odd organization": (sample.r2(key="Acme Inc/cat.png"), "MALFORMED_KEY"),
    "no key": (sample.r2(key=None), "MALFORMED_KEY"),
    "a number for a key": (sample.s3(key=7), "MALFORMED_KEY"),
    "NUL in the key": (sample.r2(key="acme/a\x00b"), "MALFORMED_KEY"),
    "NUL in an encoded key": (sample.s3(key="acme/a%00b"), "MALFORMED_KEY"),
    "half a character in the key": (sample.r2(key="acme/\ud800"), "MALFORMED_KEY"),
    "a key that is not UTF-8": (sample.s3(key="acme/%FF%FE"), "MALFORMED_KEY"),
    "an encoded slash": (sample.s3(key="acme/a%2Fb"), "MALFORMED_KEY"),
    "no object": (without(sample.r2(), "object"), "MALFORMED_KEY"),
    "an object that is a list": (sample.r2() | {"object": []}, "MALFORMED_KEY"),
    "no s3 part": (without(sample.s3(), "s3"), "MALFORMED_KEY"),
    "no detail": (without(sample.eventbridge(), "detail"), "MALFORMED_KEY"),
    "no attributes of seaweedfs": (
        sample.seaweedfs("create") | {"message": {"new_entry": {"name": "cat.jpg"}}},
        "MALFORMED_TIME",
    ),
    "no time": (without(sample.r2(), "eventTime"), "MALFORMED_TIME"),
    "a number for a time": (sample.r2(time=1767604023120), "MALFORMED_TIME"),
    "a word for a time": (sample.r2(time="yesterday"), "MALFORMED_TIME"),
    "an empty time": (sample.s3(eventTime=""), "MALFORMED_TIME"),
    "no action": (sample.r2() | {"action": None}, "MALFORMED_ACTION"),
    "a list for an action": (sample.s3() | {"eventName": ["Put"]}, "MALFORMED_ACTION"),
    "a number for a kind": (sample.eventbridge() | {"detail-type": 1}, "MALFORMED_ACTION"),
    "a letter": (sample.sns("Hello!"), "UNREADABLE"),
    "a body cut off": (sample.forwarded('{"action":"PutObj'), "UNREADABLE"),
    "a body of another encoding": (sample.forwarded("/w8GbwZ="), "UNREADABLE"),
    "an unknown object": ({"hello": "world"}, "UNKNOWN_SHAPE"),
    "an empty object": ({}, "UNKNOWN_SHAPE"),
    "null": (None, "UNKNOWN_SHAPE"),
    "a number": (7, "UNKNOWN_SHAPE"),
    "records that are none": ({"Records": {"a": 1}}, "UNKNOWN_SHAPE"),
    "a message that is a number": (sample.forwarded(7), "UNKNOWN_SHAPE"),
    "an envelope around nothing": (sample.sns("null"), "UNKNOWN_SHAPE"),
    "an unknown thing in a known list": (sample.s3_records({"a": 1}), "UNKNOWN_SHAPE"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    body, code = REJECTED[case]
    found = normalise(body)
    assert (found.events, found.ignored) == ([], [])
    assert [item.code for item in found.rejected] == [code]
    assert found.rejected[0].reason


@pytest.mark.parametrize("body", [[], {"Records": []}, {"messages": []}, {"Messages": []}])
def test_nothing_in_an_envelope_is_nothing(body: object) -> None:
    found = normalise(body)
    assert (found.events, found.ignored, found.rejected) == ([], [], [])


MIXED = [sample.r2(key="acme/1"), {"bad": 1}, sample.r2("GetObject"), None, sample.r2(key="acme/2")]


@pytest.mark.parametrize("wrap", [list, lambda all_: sample.forwarded(*all_), lambda all_: sample.pulled(*all_), lambda all_: sample.s3_records(*all_), lambda all_: sample.sqs_polled(*all_)])  # fmt: skip
def test_one_bad_record_does_not_decide_anothers_fate(wrap: Any) -> None:
    found = normalise(wrap(MIXED))
    assert [event.key for event in found.events] == ["acme/1", "acme/2"]
    assert [item.code for item in found.ignored] == ["UNKNOWN_ACTION"]
    assert [item.code for item in found.rejected] == ["UNKNOWN_SHAPE", "UNKNOWN_SHAPE"]


def test_formats_have_names_of_their_own() -> None:
    names = [known.name for known in FORMATS]
    assert len(set(names)) == len(names)
