"""Every format, in the order in which they are tried: what is surest to recognise comes first."""

from typing import Final

from safelight.objects.notifications import (
    cloudflare_queue,
    cloudflare_r2,
    eventbridge,
    minio,
    s3,
    seaweedfs,
    sns,
    sqs,
)
from safelight.objects.notifications.notice import Format

FORMATS: Final[tuple[Format, ...]] = (
    eventbridge.EVENT,
    sns.NOTIFICATION,
    sns.CONFIRMATION,
    sns.RECORD,
    s3.TEST,
    minio.WEBHOOK,
    seaweedfs.WEBHOOK,
    s3.RECORD,
    s3.RECORDS,
    sqs.ANSWER,
    sqs.MESSAGE,
    sqs.RECORD,
    cloudflare_queue.ANSWER,
    cloudflare_queue.BATCH,
    cloudflare_r2.MESSAGE,
    cloudflare_queue.MESSAGE,
)
