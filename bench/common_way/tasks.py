"""The worker's processes: read the row, decode and infer, write the label, tell it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import redis
from celery import Celery
from celery.signals import worker_process_init

from bench.common_way import settings
from safelight.classification import lite0
from safelight.classification.network import Predict

celery = Celery("common_way", broker=settings.REDIS)
celery.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,  # what comes of it is in PostgreSQL
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


@celery.task(name="classify")  # type: ignore[untyped-decorator]
def classify(image: str) -> None:
    database = _database()
    path = database.execute("SELECT path FROM images WHERE id = %s", [image]).fetchone()
    if path is None:
        return
    found = _predict()(Path(path[0]).read_bytes())
    database.execute(
        "UPDATE images SET status = 'done', label = %s, score = %s WHERE id = %s",
        [found.label, found.score, image],
    )
    told = {"type": "classification_updated", "id": image, "label": found.label}
    _redis().publish(settings.CHANNEL, json.dumps(told))


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _ready(**_: Any) -> None:
    """Each process has its own, made before the first task."""
    _predict()
    _database()


@cache
def _predict() -> Predict:
    return lite0.load(100_000_000, lite0.weights_path())


@cache
def _database() -> psycopg.Connection[Any]:
    """Each statement is a transaction: it needs no more."""
    return psycopg.connect(settings.DATABASE, autocommit=True)


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS)
