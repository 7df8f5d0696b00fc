"""Everything that can be set, read once at start: SAFELIGHT_* variables, then an optional TOML.

There is no global instance. A value that cannot work is refused before anything is opened, with a
sentence that says what to do; so is a SAFELIGHT_ variable that does not exist, since a misspelt
limit that silently does nothing is worse than no limit.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from safelight.errors import ConfigurationError

PREFIX = "SAFELIGHT_"
EXAMPLE_VARIABLE = "SAFELIGHT_TOKEN"  # what our pages have people export for curl; not a setting
SECRET_LENGTH = 32
SHORTEST_CACHE = 60  # seconds, AI Gateway's own limit
ACCEPTED_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif", "image/avif")

CommaList = Annotated[tuple[str, ...], NoDecode]
Seconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


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
    public_url: str | None = Field(
        None, description="Address others reach this server at; webhooks and sign-in links use it."
    )
    trusted_proxies: CommaList = Field(
        (), description="Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed."
    )

    # What it stands on
    database_url: SecretStr | None = Field(
        None, description="External PostgreSQL (15 or newer). Empty: the embedded one."
    )
    database_pool_size: int = Field(
        10, ge=2, le=200, description="Database connections per process."
    )
    object_store_url: str = Field(
        "local", description="`local`, or `s3://bucket?endpoint=…&region=…`."
    )
    ingest_dir: Path | None = Field(
        None, description="Where uploads wait for storage. Default: `ingest` in the data directory."
    )

    # Who may come in
    secret_key: SecretStr | None = Field(
        None,
        description="At least 32 bytes; signs cursors and webhook tokens. Default: made at first "
        "start and kept in the database.",
    )
    bootstrap_token: SecretStr | None = Field(
        None,
        description="`slt_` and 32 or more characters; an operator's token from the first start.",
    )
    events_token: SecretStr | None = Field(
        None, description="Opens the object-store events route to a bucket's notifications."
    )
    metrics_open: bool = Field(False, description="Serve /metrics without sign-in.")

    # Uploads
    max_upload_bytes: int = Field(25 * 1024 * 1024, ge=1, description="Largest upload in bytes.")
    max_pixels: int = Field(
        100_000_000, ge=1, description="Largest upload in pixels, by its header."
    )
    accepted_types: CommaList = Field(
        ACCEPTED_TYPES, description="Accepted image types; may only be narrowed."
    )
    ingest_ttl_seconds: Seconds = Field(
        86_400, description="Age at which files that are safe elsewhere are swept from ingest."
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
    workers_ai_url: str | None = Field(
        None,
        description="`https://api.cloudflare.com/client/v4/accounts/ID`, or an AI Gateway's "
        "`https://gateway.ai.cloudflare.com/v1/ID/GATEWAY/workers-ai`.",
    )
    workers_ai_token: SecretStr | None = Field(
        None, description="Cloudflare API token that may run Workers AI."
    )
    workers_ai_gateway_token: SecretStr | None = Field(
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
        "on", description="Reserved for small renditions; has no effect yet."
    )

    # Generations
    runware_url: str = Field("https://api.runware.ai/v1", description="Address of the Runware API.")
    runware_api_key: SecretStr | None = Field(None, description="Runware key; enables it.")
    replicate_url: str = Field(
        "https://api.replicate.com/v1", description="Address of the Replicate API."
    )
    replicate_api_token: SecretStr | None = Field(None, description="Replicate token; enables it.")
    replicate_webhook_secret: SecretStr | None = Field(
        None, description="`whsec_…` that Replicate signs webhooks with. Default: asked for."
    )
    outgoing_allow: CommaList = Field(
        (), description="Extra `host:port` that may be fetched, loopback included."
    )
    generation_image_timeout_seconds: Seconds = Field(300, description="Limit of an image.")
    generation_video_timeout_seconds: Seconds = Field(600, description="Limit of a video.")
    generation_fetch_seconds: Seconds = Field(
        180, description="Limit of fetching one result from its provider."
    )
    generation_concurrency: int = Field(
        20, ge=1, le=64, description="Calls to one provider at once, per process."
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
    vision_url: str | None = Field(
        None, description="A remote model that judges submissions too; docs/submissions.md."
    )
    vision_token: SecretStr | None = Field(None, description="Its bearer token.")
    vision_timeout_seconds: Seconds = Field(20, description="Limit of one request to it.")
    scan_timeout_seconds: Annotated[float, Field(gt=0, le=100)] = Field(
        55, description="Limit of the whole processing of one submission."
    )
    scan_max_frames: int = Field(
        1000, ge=1, description="Most frames an animation may have to be published."
    )
    scan_memory_bytes: int = Field(
        1024**3, ge=64 * 1024**2, description="Memory for decoding one submitted image."
    )
    scan_cpu_seconds: int = Field(
        20, ge=1, description="Processor time for decoding one submitted image."
    )

    # Stuck work
    stale_after_seconds: Seconds = Field(180, description="Age of a stage that shows as stale.")
    stuck_after_seconds: Seconds = Field(300, description="Age of a stage that is recovered.")
    recovery_interval_seconds: Seconds = Field(300, description="How often recovery looks.")
    recovery_backoff_seconds: Annotated[tuple[float, ...], NoDecode] = Field(
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
        return init_settings, env_settings, _TomlSource(settings_cls)

    @field_validator(
        "trusted_proxies", "accepted_types", "outgoing_allow", "recovery_backoff_seconds",
        mode="before",
    )  # fmt: skip
    @classmethod
    def _comma_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("accepted_types")
    @classmethod
    def _known_types(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [kind for kind in value if kind not in ACCEPTED_TYPES]
        if unknown or not value:
            raise ValueError(f"choose from {', '.join(ACCEPTED_TYPES)}")
        return value

    @field_validator("recovery_backoff_seconds")
    @classmethod
    def _positive_waits(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not value or min(value) <= 0:
            raise ValueError("give one or more positive numbers, separated by commas")
        return value

    @field_validator("outgoing_allow")
    @classmethod
    def _host_and_port(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            host, _, port = entry.rpartition(":")
            if not host or not port.isdigit():
                raise ValueError(f"write {entry!r} as host:port")
        return value

    @field_validator("secret_key")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value().encode()) < SECRET_LENGTH:
            raise ValueError("use at least 32 bytes of randomness")
        return value

    @field_validator("bootstrap_token")
    @classmethod
    def _token_shape(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return value
        prefix, _, rest = value.get_secret_value().partition("_")
        if (
            prefix != "slt"
            or len(rest) < SECRET_LENGTH
            or not rest.isascii()
            or not rest.isprintable()
        ):
            raise ValueError("write slt_ followed by at least 32 printable ASCII characters")
        return value

    @field_validator("workers_ai_token", "workers_ai_gateway_token")
    @classmethod
    def _fits_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return value
        text = value.get_secret_value().strip()
        if not text.isascii() or not text.isprintable() or not text:
            raise ValueError("use printable ASCII characters")
        return SecretStr(text)

    @field_validator("database_url")
    @classmethod
    def _postgres_only(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and urlsplit(value.get_secret_value()).scheme not in {
            "postgresql",
            "postgres",
        }:
            raise ValueError("write postgresql://user:password@host:port/database")
        return value

    @field_validator("object_store_url")
    @classmethod
    def _store(cls, value: str) -> str:
        parts = urlsplit(value)
        if value != "local" and (parts.scheme != "s3" or not parts.netloc):
            raise ValueError("write `local` or s3://bucket?endpoint=…&region=…")
        return value

    @field_validator("public_url", "runware_url", "replicate_url", "workers_ai_url", "vision_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is None:
            return value
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ValueError("write a full address such as https://images.example.org")
        return value.rstrip("/")

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
        if self.classifier == "workers-ai" and self.workers_ai_url is None:
            raise ValueError("SAFELIGHT_CLASSIFIER=workers-ai also needs SAFELIGHT_WORKERS_AI_URL")
        if self.classifier == "onnx" and self.onnx_model is None:
            raise ValueError("SAFELIGHT_CLASSIFIER=onnx also needs SAFELIGHT_ONNX_MODEL")
        if 0 < self.workers_ai_gateway_cache_seconds < SHORTEST_CACHE:
            raise ValueError("SAFELIGHT_WORKERS_AI_GATEWAY_CACHE_SECONDS must be 0, or 60 or more")
        return self

    @property
    def ingest_path(self) -> Path:
        return (self.ingest_dir or self.data_dir / "ingest").absolute()


class _TomlSource(PydanticBaseSettingsSource):
    """Reads the file named by SAFELIGHT_CONFIG; the variables outrank it."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError(field, field_name)  # the base class asks for it; __call__ answers

    def __call__(self) -> dict[str, Any]:
        name = os.environ.get(f"{PREFIX}CONFIG")
        if not name:
            return {}
        try:
            return tomllib.loads(Path(name).read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ConfigurationError(f"SAFELIGHT_CONFIG={name} cannot be read: {error}") from error


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
