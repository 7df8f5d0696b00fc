"""Settings: what is refused, in which words, and that every promised name is accepted."""

from pathlib import Path

import pytest

from safelight.cli.serve import prepare
from safelight.errors import ConfigurationError
from safelight.settings import Settings, load

PROMISED = [
    "DATA_DIR",
    "HOST",
    "PORT",
    "DATABASE_URL",
    "OBJECT_STORE_URL",
    "INGEST_DIR",
    "EVENTS_TOKEN",
    "SECRET_KEY",
    "THUMBNAILS",
    "MAX_UPLOAD_BYTES",
    "CLASSIFIER",
    "WORKERS_AI_URL",
    "RUNWARE_URL",
    "RUNWARE_API_KEY",
    "REPLICATE_URL",
    "REPLICATE_API_TOKEN",
    "PUBLIC_URL",
    "OUTGOING_ALLOW",
    "STALE_AFTER_SECONDS",
    "STUCK_AFTER_SECONDS",
    "RECOVERY_INTERVAL_SECONDS",
    "RECOVERY_BACKOFF_SECONDS",
    "GENERATION_IMAGE_TIMEOUT_SECONDS",
    "GENERATION_VIDEO_TIMEOUT_SECONDS",
    "BOOTSTRAP_TOKEN",
    "METRICS_OPEN",
]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("SAFELIGHT_"):
            monkeypatch.delenv(name)


def test_every_promised_name_is_a_setting() -> None:
    assert {name.lower() for name in PROMISED} <= set(Settings.model_fields)


def test_every_setting_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_defaults_work() -> None:
    settings = load()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.max_upload_bytes == 25 * 1024 * 1024
    assert settings.recovery_backoff_seconds == (300, 600, 1200)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SAFELIGHT_PRT", "1", "Did you mean SAFELIGHT_PORT"),
        ("SAFELIGHT_PORT", "eighty", "SAFELIGHT_PORT"),
        ("SAFELIGHT_PORT", "70000", "SAFELIGHT_PORT"),
        ("SAFELIGHT_DATABASE_URL", "mysql://x", "postgresql://"),
        ("SAFELIGHT_OBJECT_STORE_URL", "ftp://x", "s3://bucket"),
        ("SAFELIGHT_SECRET_KEY", "short", "32 random characters"),
        ("SAFELIGHT_SECRET_KEY", " " * 31 + "x", "32 random characters"),
        ("SAFELIGHT_EVENTS_TOKEN", "x" * 31 + "\n", "32 random characters"),
        ("SAFELIGHT_SECRET_KEY", "ü" * 31, "32 random characters"),
        ("SAFELIGHT_BOOTSTRAP_TOKEN", "slt_" + " " * 31 + "x", "32"),
        ("SAFELIGHT_BOOTSTRAP_TOKEN", "slt_short", "32"),
        ("SAFELIGHT_EVENTS_TOKEN", "e" * 31, "32"),
        ("SAFELIGHT_REPLICATE_WEBHOOK_SECRET", "whsec_", "whsec_"),
        ("SAFELIGHT_REPLICATE_WEBHOOK_SECRET", "whsec_c2hvcnQ=", "24 bytes"),
        ("SAFELIGHT_REPLICATE_WEBHOOK_SECRET", "whsec_not base64!" + "x" * 40, "whsec_"),
        ("SAFELIGHT_RUNWARE_API_KEY", "key\nHost: elsewhere", "printable ASCII"),
        ("SAFELIGHT_REPLICATE_API_TOKEN", "schlüssel", "printable ASCII"),
        ("SAFELIGHT_VISION_TOKEN", "a\x07b", "printable ASCII"),
        ("SAFELIGHT_BOOTSTRAP_TOKEN", "x" * 60, "slt_"),
        ("SAFELIGHT_ACCEPTED_TYPES", "image/tiff", "image/jpeg"),
        ("SAFELIGHT_CLASSIFIER", "workers-ai", "SAFELIGHT_WORKERS_AI_URL"),
        ("SAFELIGHT_RECOVERY_BACKOFF_SECONDS", "5,-1", "positive"),
        ("SAFELIGHT_OUTGOING_ALLOW", "localhost", "host:port"),
        ("SAFELIGHT_STUCK_AFTER_SECONDS", "1", "SAFELIGHT_STALE_AFTER_SECONDS"),
        ("SAFELIGHT_PUBLIC_URL", "images.example.org", "full address"),
        ("SAFELIGHT_TRUSTED_PROXIES", "10.0.0.1, nginx", "write 'nginx' as an IP address"),
        ("SAFELIGHT_TRUSTED_PROXIES", "/run/proxy.sock", "names are not looked up"),
        ("SAFELIGHT_TRUSTED_PROXIES", "10.0.0.1/8", "10.0.0.0/8"),
        ("SAFELIGHT_TRUSTED_PROXIES", "*, 10.0.0.1", "alone"),
        ("SAFELIGHT_CONFIG", "/nowhere.toml", "cannot be read"),
    ],
)
def test_refusals_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="SAFELIGHT_") as refused:
        load()
    assert words in refused.value.message


def test_a_classifier_nobody_knows_is_refused_before_anything_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAFELIGHT_CLASSIFIER", "magic")
    with pytest.raises(ConfigurationError, match="choose from lite0, onnx, workers-ai"):
        prepare(load())


SECRETS = [
    name
    for name, field in Settings.model_fields.items()
    if "Secret" in str(field.annotation) + str(field.metadata)
]


def test_the_secrets_are_all_met() -> None:
    assert len(SECRETS) >= 9


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("nothing", ["", "  ", "\n"])
def test_an_empty_secret_is_none(monkeypatch: pytest.MonkeyPatch, name: str, nothing: str) -> None:
    """A compose file hands on an unset variable as an empty one; that opens no door."""
    monkeypatch.setenv(f"SAFELIGHT_{name.upper()}", nothing)
    assert getattr(load(), name) is None


@pytest.mark.parametrize("given", ["10.0.0.1", "10.0.0.0/8,::1", "2001:db8::/32", "*", ""])
def test_proxies_are_addresses_or_networks(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("SAFELIGHT_TRUSTED_PROXIES", given)
    assert ",".join(load().trusted_proxies) == given


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("HTTPS://Images.Example.org/", "https://images.example.org"),
        ("Http://[2001:DB8::1]:8000", "http://[2001:db8::1]:8000"),
        ("https://Name:Secret@HOST/Path/", "https://Name:Secret@host/Path"),
    ],
)
def test_an_address_is_read_whatever_its_case(
    monkeypatch: pytest.MonkeyPatch, given: str, read: str
) -> None:
    """Cookies are Secure, and HSTS is sent, where it begins with https."""
    monkeypatch.setenv("SAFELIGHT_PUBLIC_URL", given)
    assert load().public_url == read


def test_a_secret_is_taken_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading one differently than before would end every session."""
    monkeypatch.setenv("SAFELIGHT_SECRET_KEY", "k" * 32 + "\n")
    secret = load().secret_key
    assert secret
    assert secret.get_secret_value() == "k" * 32 + "\n"


def test_secrets_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFELIGHT_SECRET_KEY", "hunter2")
    with pytest.raises(ConfigurationError) as refused:
        load()
    assert "hunter2" not in refused.value.message


def test_a_file_and_what_outranks_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "safelight.toml"
    file.write_text('port = 9000\nhost = "0.0.0.0"\nmax_pixels = 5\n')
    monkeypatch.setenv("SAFELIGHT_CONFIG", str(file))
    monkeypatch.setenv("SAFELIGHT_PORT", "9001")
    settings = load({"host": "::1", "data_dir": None})
    assert (settings.port, settings.host, settings.max_pixels) == (9001, "::1", 5)
    file.write_text("prot = 9000\n")
    with pytest.raises(ConfigurationError, match="PROT"):
        load()


def test_settings_cannot_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().port = 1


def test_a_direct_address_beside_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFELIGHT_DATABASE_DIRECT_URL", "postgresql://u:p@h/d")
    with pytest.raises(ConfigurationError, match="also needs SAFELIGHT_DATABASE_URL"):
        load()
