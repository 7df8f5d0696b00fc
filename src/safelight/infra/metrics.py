"""Prometheus metrics of one process, in a registry of our own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._of_requests()
        self._of_work()
        self._of_upkeep()

    def _of_requests(self) -> None:
        self.requests = self._counter(
            "http_requests_total", "Answered requests.", "method", "route", "status"
        )
        self.request_seconds = Histogram(
            "safelight_http_request_seconds",
            "Time to answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.replica_reads = self._counter(
            "replica_reads_total",
            "Reads a replica was asked for: replica (it answered), behind or away (not it).",
            "outcome",
        )
        self.connections = self._gauge("connections", "Open connections, sockets included.")
        self.refused = self._counter(
            "refused_connections_total",
            "Connections refused before a request was complete, by the error's code; CUT: unheard.",
            "code",
        )

    def _of_work(self) -> None:
        self.uploads = self._counter(
            "uploads_total", "Uploads by outcome: INGESTED or the error's code.", "outcome"
        )
        self.upload_bytes = self._counter("upload_bytes_total", "Bytes of recorded uploads.")
        self.classifications = self._counter(
            "classifications_total",
            "Attempts by their end: done, failed, dropped, away, retried or dead.",
            "outcome",
        )
        # Read from the database when somebody asks (admin/scrape.py)
        self.jobs = self._gauge(
            "jobs", "Jobs in the database: queued, running or delayed.", "kind", "state"
        )
        self.jobs_oldest = self._gauge(
            "jobs_oldest_seconds", "How long the oldest job that could run has waited.", "kind"
        )
        self.dead_letters = self._gauge(
            "dead_letters", "Jobs that gave up and wait for somebody.", "kind"
        )
        self.differences = self._gauge(
            "library_differences",
            "Names on which bucket, index and library did not agree after the last whole look.",
            "kind",
        )
        self.nodes_missing = self._gauge(
            "nodes_missing", "Machines that have told nothing for most of a minute and are needed."
        )
        self.uploads_stranded = self._gauge(
            "uploads_stranded", "Uploads whose only copy is on a missing machine."
        )
        self.jobs_stranded = self._gauge(
            "jobs_stranded", "Jobs about files that are on a missing machine, uploads among them."
        )
        self.database_up = self._gauge("database_up", "Whether the database answered just now.")

    def _of_upkeep(self) -> None:
        self.ingest_overdue = self._gauge(
            "ingest_overdue",
            "Files older than the sweep's age that are still the only copy of an image.",
        )
        self.clock_skew = self._gauge(
            "clock_skew_seconds",
            "By how much this process's clock is ahead of the database's; looked at hourly.",
        )
        self.strays = self._gauge(
            "strays", "Files without a record that the last look at a directory found.", "directory"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"safelight_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"safelight_{name}", text, labels, registry=self.registry)

    def render(self) -> bytes:
        return generate_latest(self.registry)
