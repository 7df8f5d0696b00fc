"""Prometheus metrics of one process, in a registry of our own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "safelight_http_requests_total",
            "Answered requests.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "safelight_http_request_seconds",
            "Time to answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.uploads = Counter(
            "safelight_uploads_total",
            "Uploads by outcome: INGESTED or the error's code.",
            ("outcome",),
            registry=self.registry,
        )
        self.upload_bytes = Counter(
            "safelight_upload_bytes_total", "Bytes of recorded uploads.", registry=self.registry
        )
        self.ingest_overdue = Gauge(
            "safelight_ingest_overdue",
            "Files older than the sweep's age that are still the only copy of an image.",
            registry=self.registry,
        )
        self.clock_skew = Gauge(
            "safelight_clock_skew_seconds",
            "By how much this process's clock is ahead of the database's; looked at hourly.",
            registry=self.registry,
        )
        self.strays = Gauge(
            "safelight_strays",
            "Files without a record that the last look at a directory found.",
            ("directory",),
            registry=self.registry,
        )

    def render(self) -> bytes:
        return generate_latest(self.registry)
