"""One message of each store and courier, as they really look."""

import base64
import json
from typing import Any

KEY = "acme/höhe 1+1.jpg"
ENCODED = "acme/h%C3%B6he+1%2B1.jpg"
MARKER = "5b1c5d0e-7f5e-4a53-9f0a-6f6f0a4a7f10"
ETAG = "9e107d9d372bb6826bd81d3542a419d6"
Json = dict[str, Any]


def r2(action: str = "PutObject", key: Any = KEY, time: Any = "2026-01-05T09:07:03.120Z") -> Json:
    about = {"key": key}
    if action not in {"DeleteObject", "LifecycleDeletion"}:
        about |= {"size": 1234, "eTag": ETAG}
    return {
        "account": "acc1",
        "action": action,
        "bucket": "pictures",
        "object": about,
        "eventTime": time,
    }


def s3(name: str = "ObjectCreated:Put", key: Any = ENCODED, **more: Any) -> Json:
    return {
        "eventVersion": "2.5",
        "eventSource": "aws:s3",
        "awsRegion": "eu-central-1",
        "eventTime": "2026-01-05T09:07:03.120Z",
        "eventName": name,
        "responseElements": {"x-amz-request-id": "C3D13FE58DE4C810"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "all",
            "bucket": {"name": "pictures", "arn": "arn:aws:s3:::pictures"},
            "object": {"key": key, "size": 1234, "eTag": ETAG, "sequencer": "0055AED6DCD90281E5"},
        },
        **more,
    }


def s3_records(*records: Any) -> Json:
    return {"Records": list(records)}


def s3_test() -> Json:
    return {
        "Service": "Amazon S3",
        "Event": "s3:TestEvent",
        "Time": "2026-01-05T09:07:03.120Z",
        "Bucket": "pictures",
        "RequestId": "5582815E1AEA5ADF",
        "HostId": "8cLeGAmw098X5cv4Zkwcmo8vvZa3eH3eKxsPzbB9wrR",
    }


def minio(name: str = "s3:ObjectCreated:Put") -> Json:
    about: Json = {"key": "acme%2Fh%C3%B6he+1%2B1.jpg", "sequencer": "1887C1A2B3C4D5E6"}
    if name.startswith("s3:ObjectCreated:"):
        about |= {
            "size": 1234,
            "eTag": ETAG,
            "contentType": "image/jpeg",
            "userMetadata": {
                "X-Amz-Meta-Idempotencykey": MARKER,
                "X-Amz-Meta-Organizationid": "acme",
                "X-Amz-Meta-Name": "h%C3%B6he%201%2B1.jpg",
                "content-type": "image/jpeg",
            },
        }
    record = {
        "eventVersion": "2.0",
        "eventSource": "minio:s3",
        "eventTime": "2026-01-05T09:07:03.120Z",
        "eventName": name,
        "responseElements": {"x-minio-deployment-id": "0170a4cc-dca6-4e72-86f1-c0cc760dff7f"},
        "s3": {"configurationId": "Config", "bucket": {"name": "pictures"}, "object": about},
        "source": {"host": "127.0.0.1", "port": "", "userAgent": "MinIO"},
    }
    return {"EventName": name, "Key": "pictures/" + KEY, "Records": [record]}


def ceph(name: str) -> Json:
    record = s3(name, eventSource="ceph:s3", eventVersion="2.2", opaqueData="")
    record["s3"]["object"] |= {"metadata": [], "tags": [], "versionId": ""}
    return record


def seaweedfs(kind: str) -> Json:
    """As SeaweedFS 4.48 sent it to its webhook."""
    entry = _seaweed_entry()
    message: Json = {"delete_chunks": True, "signatures": [116741084]}
    if kind != "create":
        message["old_entry"] = entry
    if kind != "delete":
        message |= {"new_entry": entry, "new_parent_path": "/buckets/pictures/acme"}
    return {"event_type": kind, "key": f"/buckets/pictures/{KEY}", "message": message}


def _seaweed_entry() -> Json:
    return {
        "name": "höhe 1+1.jpg",
        "chunks": [
            {
                "size": 1234,
                "modified_ts_ns": 1767604023046322046,
                "e_tag": "Sz4jVaSpaHbWcb/4elZudA==",
                "fid": {"volume_id": 7, "file_key": 1, "cookie": 1807747961},
            }
        ],
        "attributes": {
            "file_size": 1234,
            "mtime": 1767604023,
            "file_mode": 432,
            "crtime": 1767604023,
            "mime": "image/jpeg",
            "md5": "Sz4jVaSpaHbWcb/4elZudA==",
            "inode": 13772340802658430044,
            "ctime": 1767604023,
            "atime": 1767604023,
        },
        "extended": {
            "Seaweed-X-Amz-ETag": _in_base64(ETAG),
            "Seaweed-X-Amz-Owner": "YQ==",
            "X-Amz-Meta-Idempotencykey": _in_base64(MARKER),
            "X-Amz-Meta-Name": _in_base64("h%C3%B6he%201%2B1.jpg"),
            "x-seaweedfs-checksum-algorithm": "WC1BbXotQ2hlY2tzdW0tQ3JjMzI=",
            "x-seaweedfs-checksum-value": "WS83NlVnPT0=",
        },
    }


def _in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def seaweedfs_directory() -> Json:
    entry = {
        "name": "acme",
        "is_directory": True,
        "attributes": {"mtime": 1767604023, "file_mode": 2147484153, "mtime_ns": 503760981},
    }
    message = {"new_entry": entry, "new_parent_path": "/buckets/pictures"}
    return {"event_type": "create", "key": "/buckets/pictures/acme", "message": message}


def seaweedfs_part() -> Json:
    upload = "ec7af1badbed6cf89b71a1ba7766e57e6cb12f40_4dc275a6307e4afbabf1a0fac6442176"
    name = f".uploads/{upload}/0001_01687f01-f75c-416d-9132-9183578462db.part"
    return seaweedfs("create") | {"key": f"/buckets/pictures/{name}"}


def sns(message: Any, kind: str = "Notification") -> Json:
    return {
        "Type": kind,
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:pictures",
        "Subject": "Amazon S3 Notification",
        "Message": message if isinstance(message, str) else json.dumps(message),
        "Timestamp": "2026-01-05T09:07:03.500Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLE",
        "UnsubscribeURL": "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe",
    }


def sns_confirmation() -> Json:
    return sns("You have chosen to subscribe to the topic.", "SubscriptionConfirmation") | {
        "Token": "2336412f37",
        "SubscribeURL": "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription",
    }


def sqs_polled(*bodies: Any) -> Json:
    return {
        "Messages": [
            {"MessageId": str(n), "ReceiptHandle": "AQEB", "Body": json.dumps(body)}
            for n, body in enumerate(bodies)
        ]
    }


def sqs_records(*bodies: Any) -> Json:
    return {
        "Records": [
            {"messageId": str(n), "eventSource": "aws:sqs", "body": json.dumps(body)}
            for n, body in enumerate(bodies)
        ]
    }


def eventbridge(kind: str = "Object Created", **detail: Any) -> Json:
    about: Json = {"key": KEY, "sequencer": "0055AED6DCD90281E5"}
    if kind == "Object Created":
        about |= {"size": 1234, "etag": ETAG}
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": kind,
        "source": "aws.s3",
        "account": "111122223333",
        "time": "2026-01-05T09:07:03Z",
        "region": "eu-central-1",
        "resources": ["arn:aws:s3:::pictures"],
        "detail": {"version": "0", "bucket": {"name": "pictures"}, "object": about, **detail},
    }


def pulled(*messages: Any) -> Json:
    """As the Cloudflare API answers a pull: JSON bodies in base64."""
    return {
        "success": True,
        "result": {
            "message_backlog_count": 0,
            "messages": [
                {
                    "id": str(n),
                    "body": base64.b64encode(json.dumps(message).encode()).decode(),
                    "attempts": 1,
                    "timestamp_ms": 1767604023120,
                    "lease_id": "eyJhbGciOi",
                    "metadata": {"CF-Content-Type": "json"},
                }
                for n, message in enumerate(messages)
            ],
        },
    }


def forwarded(*messages: Any) -> Json:
    """As a Worker sends its batch on."""
    return {
        "queue": "pictures",
        "messages": [
            {"id": str(n), "timestamp": "2026-01-05T09:07:03.500Z", "attempts": 1, "body": message}
            for n, message in enumerate(messages)
        ],
    }
