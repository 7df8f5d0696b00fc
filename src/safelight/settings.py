"""Everything that can be set, read once at start: SAFELIGHT_* variables, then an optional TOML.

There is no global instance. A value that cannot work is refused before anything is opened, with a
sentence that says what to do; so is a SAFELIGHT_ variable that does not exist, since a misspelt
limit that silently does nothing is worse than no limit.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from safelight.errors import ConfigurationError
from safelight.setting_kinds import (
    ACCEPTED_TYPES,
    AcceptedTypes,
    DatabaseAddress,
    HeaderSecret,
    HostsAndPorts,
    LongSecret,
    OwnToken,
    Proxies,
    Seconds,
    SecretAddress,
    Share,
    SigningSecret,
    StoreAddress,
    Waits,
    WebAddress,
)
from safelight.setting_sources import PREFIX, TomlSource

EXAMPLE_VARIABLE = "SAFELIGHT_TOKEN"  # what our pages have people export for curl; not a setting
SHORTEST_CACHE = 60  # seconds, AI Gateway's own limit


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    # Where it lives and listens
    data_dir: Path = Field(
        Path("safelight-data"), description="Directory that holds the database, blobs and uploads."
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    worker_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port at which `safelight worker` answers /healthz, /readyz and /metrics. "
        "Default: none.",
    )
    public_url: WebAddress | None = Field(
        None, description="Address others reach this server at; webhooks and sign-in links use it."
    )
    trusted_proxies: Proxies = Field(
        (),
        description="Addresses and networks whose X-Forwarded-For and X-Forwarded-Proto are "
        "believed; `*`: everybody's.",
    )
    max_connections: int = Field(
        8192,
        ge=2,
        description="Connections at once; fewer if this process may not open two files for each.",
    )
    max_connections_per_address: int = Field(
        2048,
        ge=1,
        description="The same from one address that is no trusted proxy; at most half of all.",
    )
    max_header_bytes: int = Field(
        64 * 1024, ge=1024, le=1024 * 1024, description="Longest URL, and header, of a request."
    )
    max_header_fields: int = Field(
        100, ge=10, le=10_000, description="Most header fields of a request."
    )
    header_seconds: Seconds = Field(
        10, description="How long a client may take to complete the header of a request."
    )
    body_idle_seconds: Seconds = Field(
        30,
        description="How long a client may send nothing in the middle of a body, or take nothing "
        "of an answer.",
    )
    max_sockets_per_caller: int = Field(
        1000, ge=1, description="Live sockets of one user or token, per process."
    )
    max_sockets_per_organization: int = Field(
        4000, ge=1, description="Live sockets of one organization, per process."
    )

    # What it stands on
    database_url: DatabaseAddress = Field(
        None, description="External PostgreSQL (15 or newer). Empty: the embedded one."
    )
    database_direct_url: DatabaseAddress = Field(
        None,
        description="The same database without a pooler, where `SAFELIGHT_DATABASE_URL` leads to "
        "one that lends connections for one transaction at a time.",
    )
    database_read_url: DatabaseAddress = Field(
        None,
        description="A streaming replica of that database, for lists, histories and feeds: never "
        "older than what was committed when somebody asked.",
    )
    database_pool_size: int = Field(
        12, ge=6, le=200, description="Most database connections of a process, all in all."
    )
    object_store_url: StoreAddress = Field(
        "local", description="`local`, or `s3://bucket?endpoint=…&region=…`."
    )
    notifications_url: SecretAddress = Field(
        None,
        description="The queue that a bucket's notifications are fetched from: "
        "`cloudflare-queue://ACCOUNT/QUEUE?token=…` or `sqs://ACCOUNT/QUEUE?region=…`.",
    )
    downloads: Literal["proxied", "presigned"] = Field(
        "proxied",
        description="Who sends originals and artifacts of a bucket: we, or the bucket itself.",
    )
    ingest_dir: Path | None = Field(
        None, description="Where uploads wait for storage. Default: `ingest` in the data directory."
    )

    ingest: Literal["disk", "direct"] = Field(
        "disk",
        description="When an upload is answered: once it is on this machine's disk, or once it is "
        "in the object store, for disks that go with their machine.",
    )

    # Who may come in
    secret_key: LongSecret = Field(
        None,
        description="At least 32 characters; signs cursors and webhook tokens. Default: made at "
        "first start and kept in the database.",
    )
    bootstrap_token: OwnToken = Field(
        None,
        description="`slt_` and 32 or more characters; an operator's token from the first start.",
    )
    events_token: LongSecret = Field(
        None,
        description="At least 32 characters; opens the object-store events route to a bucket's "
        "notifications.",
    )
    metrics_open: bool = Field(False, description="Serve /metrics without sign-in.")

    # Uploads
    max_upload_bytes: int = Field(25 * 1024 * 1024, ge=1, description="Largest upload in bytes.")
    max_pixels: int = Field(
        100_000_000, ge=1, description="Largest upload in pixels, by its header."
    )
    max_uploads_at_once: int = Field(
        64,
        ge=1,
        description="Uploads of one organization that are on their way at the same time, per "
        "process; more wait, unread.",
    )
    accepted_types: AcceptedTypes = Field(
        ACCEPTED_TYPES, description="Accepted image types; may only be narrowed."
    )
    ingest_ttl_seconds: Seconds = Field(
        86_400, description="Age at which files that are safe elsewhere are swept from ingest."
    )

    # What an organization may use, unless an operator has given it limits of its own
    quota_stored_bytes: int = Field(
        1024**4,
        ge=0,
        le=2**60,
        description="Bytes of originals, artifacts, and what submissions keep; 0: no limit.",
    )
    quota_uploads_per_minute: int = Field(
        30_000, ge=0, le=2**60, description="Uploads sent in a minute; 0: no limit."
    )
    quota_generations_per_day: int = Field(
        10_000, ge=0, le=2**60, description="Artifacts ordered in a day (UTC); 0: no limit."
    )
    quota_submissions_per_day: int = Field(
        10_000, ge=0, le=2**60, description="Submissions in a day (UTC); 0: no limit."
    )

    # Classification and renditions
    classifier: str = Field(
        "lite0", description="Which model labels images; docs/classifiers.md lists them."
    )
    classifier_threads: int | None = Field(
        None, ge=1, le=256, description="Images classified at once. Default: one per core."
    )
    onnx_model: Path | None = Field(None, description="The ONNX file that `onnx` runs.")
    onnx_preprocessing: str = Field(
        "resnet", description="How it wants its images; docs/classifiers.md lists the ways."
    )
    workers_ai_url: WebAddress | None = Field(
        None,
        description="`https://api.cloudflare.com/client/v4/accounts/ID`, or an AI Gateway's "
        "`https://gateway.ai.cloudflare.com/v1/ID/GATEWAY/workers-ai`.",
    )
    workers_ai_token: HeaderSecret = Field(
        None, description="Cloudflare API token that may run Workers AI."
    )
    workers_ai_gateway_token: HeaderSecret = Field(
        None, description="Token of an AI Gateway that asks for one."
    )
    workers_ai_gateway_cache_seconds: int = Field(
        0, ge=0, le=2_592_000, description="How long the AI Gateway keeps answers; 0: its default."
    )
    workers_ai_body: Literal["auto", "bytes", "json"] = Field(
        "auto", description="How images are sent. `auto`: bytes, but JSON through an AI Gateway."
    )
    workers_ai_timeout_seconds: Seconds = Field(30, description="Limit of one Workers AI request.")
    thumbnails: Literal["on", "off"] = Field(
        "on", description="Whether small renditions of images are made, for galleries."
    )

    # Generations
    runware_url: WebAddress = Field(
        "https://api.runware.ai/v1", description="Address of the Runware API."
    )
    runware_api_key: HeaderSecret = Field(None, description="Runware key; enables it.")
    replicate_url: WebAddress = Field(
        "https://api.replicate.com/v1", description="Address of the Replicate API."
    )
    replicate_api_token: HeaderSecret = Field(None, description="Replicate token; enables it.")
    replicate_webhook_secret: SigningSecret = Field(
        None, description="`whsec_…` that Replicate signs webhooks with. Default: asked for."
    )
    outgoing_allow: HostsAndPorts = Field(
        (), description="Extra `host:port` that may be fetched, loopback included."
    )
    generation_image_timeout_seconds: Seconds = Field(300, description="Limit of an image.")
    generation_video_timeout_seconds: Seconds = Field(600, description="Limit of a video.")
    generation_fetch_seconds: Seconds = Field(
        180, description="Limit of fetching one result from its provider."
    )
    generation_concurrency: int = Field(
        20, ge=1, le=64, description="Calls to one provider at once, per process, and a guest's."
    )
    generation_state_days: Seconds = Field(
        7,
        description="Days that a generation's state in flight is kept after its end.",
    )
    artifact_max_bytes: int = Field(
        512 * 1024 * 1024, ge=1, description="Largest artifact in bytes."
    )
    studio_delay_seconds: float = Field(
        0, ge=0, le=3600, description="How long the built-in studio lets each task wait."
    )

    # Approvals and submissions
    approval_expiry_seconds: Seconds = Field(
        604_800, description="Age at which a request for approval that nobody decided is rejected."
    )
    safety_block_score: Share = Field(
        0.85,
        description="Safety score from which a submission is rejected, unless an "
        "organization has its own.",
    )
    safety_review_score: Share = Field(
        0.40, description="Safety score from which a person is asked, likewise."
    )
    vision_url: WebAddress | None = Field(
        None, description="A remote model that judges submissions too; docs/submissions.md."
    )
    vision_token: HeaderSecret = Field(None, description="Its bearer token.")
    vision_timeout_seconds: Seconds = Field(20, description="Limit of one request to it.")
    scan_timeout_seconds: Annotated[float, Field(gt=0, le=100)] = Field(
        55, description="Limit of the whole processing of one submission."
    )
    scan_max_frames: int = Field(
        1000, ge=1, description="Most frames an animation may have to be published."
    )
    scan_memory_bytes: int = Field(
        2 * 1024**3,
        ge=64 * 1024**2,
        description="Memory for decoding one image; the default is enough for `max_pixels`'.",
    )
    scan_cpu_seconds: int = Field(20, ge=1, description="Processor time for decoding one image.")

    # Stuck work
    stale_after_seconds: Seconds = Field(180, description="Age of a stage that shows as stale.")
    stuck_after_seconds: Seconds = Field(300, description="Age of a stage that is recovered.")
    recovery_interval_seconds: Seconds = Field(300, description="How often recovery looks.")
    recovery_backoff_seconds: Waits = Field(
        (300, 600, 1200), description="Waits after the first, second, … automatic retry."
    )
    recovery_retries: int = Field(
        3,
        ge=0,
        le=100,
        description="Automatic retries of a stuck submission before it is given up.",
    )

    # Running it
    shutdown_seconds: Seconds = Field(20, description="How long running work may take to end.")
    development: bool = Field(False, description="Add `details` to error answers.")
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="Pretty in a terminal, JSON elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that is logged."
    )
    failpoints: str = Field("", description="For tests: points at which a step fails on purpose.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not a source of ours
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - nor this
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlSource(settings_cls)

    @model_validator(mode="after")
    def _agree(self) -> "Settings":
        if self.stuck_after_seconds < self.stale_after_seconds:
            raise ValueError(
                "SAFELIGHT_STUCK_AFTER_SECONDS must not be smaller than "
                "SAFELIGHT_STALE_AFTER_SECONDS: work is shown as stale before it is recovered"
            )
        if self.safety_block_score < self.safety_review_score:
            raise ValueError(
                "SAFELIGHT_SAFETY_BLOCK_SCORE must not be smaller than "
                "SAFELIGHT_SAFETY_REVIEW_SCORE: a person is asked about what is not yet rejected"
            )
        if (self.database_direct_url or self.database_read_url) and not self.database_url:
            name = "DIRECT" if self.database_direct_url else "READ"
            raise ValueError(f"SAFELIGHT_DATABASE_{name}_URL also needs SAFELIGHT_DATABASE_URL")
        if self.downloads == "presigned" and self.object_store_url == "local":
            raise ValueError(
                "SAFELIGHT_DOWNLOADS=presigned needs a bucket (SAFELIGHT_OBJECT_STORE_URL=s3://…): "
                "files of the built-in store have no address of their own"
            )
        if self.classifier == "workers-ai" and self.workers_ai_url is None:
            raise ValueError("SAFELIGHT_CLASSIFIER=workers-ai also needs SAFELIGHT_WORKERS_AI_URL")
        if self.classifier == "onnx" and self.onnx_model is None:
            raise ValueError("SAFELIGHT_CLASSIFIER=onnx also needs SAFELIGHT_ONNX_MODEL")
        if 0 < self.workers_ai_gateway_cache_seconds < SHORTEST_CACHE:
            raise ValueError("SAFELIGHT_WORKERS_AI_GATEWAY_CACHE_SECONDS must be 0, or 60 or more")
        return self

    @property
    def database_direct(self) -> str | None:
        direct = self.database_direct_url
        return None if direct is None else direct.get_secret_value()

    @property
    def ingest_path(self) -> Path:
        return (self.ingest_dir or self.data_dir / "ingest").absolute()


def load(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Reads the environment; command-line options come as overrides."""
    _refuse_unknown_variables()
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise ConfigurationError(_in_words(error)) from None


def _refuse_unknown_variables() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    known |= {EXAMPLE_VARIABLE, f"{PREFIX}CONFIG"}
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ConfigurationError(f"{name} is not a setting.{hint} See docs/settings.md.")


def _in_words(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        name = PREFIX + str(problem["loc"][0]).upper() if problem["loc"] else "The settings"
        reason = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name}: {reason}." if problem["loc"] else f"{reason}.")
    return "\n".join(lines)
