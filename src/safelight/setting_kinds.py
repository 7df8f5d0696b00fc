"""The kinds of values that settings have: how each is read, and in which words it is refused."""

import base64
import ipaddress
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

SECRET_LENGTH: Final = 32
ACCEPTED_TYPES: Final = (
    "image/jpeg", "image/png", "image/webp", "image/gif", "image/avif", "image/heic",
)  # fmt: skip
_SIGNING_BYTES = 24  # what the standard for webhooks asks of a key


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _unset(value: Any) -> Any:
    """An unset variable reaches us as an empty one from a compose file. It must open nothing."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return None if isinstance(text, str) and not text.strip() else value


def _known_types(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or any(kind not in ACCEPTED_TYPES for kind in value):
        raise ValueError(f"choose from {', '.join(ACCEPTED_TYPES)}")
    return value


def _positive(value: tuple[float, ...]) -> tuple[float, ...]:
    if not value or min(value) <= 0:
        raise ValueError("give one or more positive numbers, separated by commas")
    return value


def _hosts_and_ports(value: tuple[str, ...]) -> tuple[str, ...]:
    for entry in value:
        host, _, port = entry.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"write {entry!r} as host:port")
    return value


def _proxies(value: tuple[str, ...]) -> tuple[str, ...]:
    """A name is compared with the address of whoever connects, and so would trust nobody."""
    if "*" in value and len(value) > 1:
        raise ValueError("write * alone: it trusts everybody already")
    for entry in value:
        if entry != "*" and not _is_network(entry):
            raise ValueError(
                f"write {entry!r} as an IP address such as 10.0.0.1, or as a network such as "
                "10.0.0.0/8; names are not looked up"
            )
    return value


def _is_network(text: str) -> bool:
    """An address is one too, in the same words as for the HTTP server."""
    try:
        _ = ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _long_enough(value: SecretStr) -> SecretStr:
    """Taken as it is written, since a key read differently than before would end every session;
    but space around it is no part of the randomness."""
    if len(value.get_secret_value().strip()) < SECRET_LENGTH:
        raise ValueError("use at least 32 random characters")
    return value


def _fits_a_header(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    if not text.isascii() or not text.isprintable():
        raise ValueError("use printable ASCII characters")
    return SecretStr(text)


def _token_of_ours(value: SecretStr) -> SecretStr:
    prefix, _, rest = value.get_secret_value().partition("_")
    long = len(rest.strip()) >= SECRET_LENGTH
    if prefix != "slt" or not long or not (rest.isascii() and rest.isprintable()):
        raise ValueError("write slt_ followed by at least 32 printable ASCII characters")
    return value


def _signing_key(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not text.startswith("whsec_") or len(key) < _SIGNING_BYTES:
        raise ValueError("write whsec_ followed by at least 24 bytes in base64")
    return SecretStr(text)


def _postgres(value: SecretStr) -> SecretStr:
    if urlsplit(value.get_secret_value()).scheme not in {"postgresql", "postgres"}:
        raise ValueError("write postgresql://user:password@host:port/database")
    return value


def _store(value: str) -> str:
    parts = urlsplit(value)
    if value != "local" and (parts.scheme != "s3" or not parts.netloc):
        raise ValueError("write `local` or s3://bucket?endpoint=…&region=…")
    return value


def _web_address(value: str) -> str:
    """Scheme and host in lower case, since whoever asks whether it is https compares letters."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError("write a full address such as https://images.example.org")
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=user + at + host.lower()).geturl().rstrip("/")


Seconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
AcceptedTypes = Annotated[CommaList, AfterValidator(_known_types)]
Proxies = Annotated[CommaList, AfterValidator(_proxies)]
HostsAndPorts = Annotated[CommaList, AfterValidator(_hosts_and_ports)]
Waits = Annotated[tuple[float, ...], NoDecode, BeforeValidator(_split), AfterValidator(_positive)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
StoreAddress = Annotated[str, AfterValidator(_store)]

# Secrets, None where there is none. Those that open our own doors have a least length; how long a
# vendor's key is, the vendor knows.
_Unset = BeforeValidator(_unset)
LongSecret = Annotated[Annotated[SecretStr, AfterValidator(_long_enough)] | None, _Unset]
HeaderSecret = Annotated[Annotated[SecretStr, AfterValidator(_fits_a_header)] | None, _Unset]
OwnToken = Annotated[Annotated[SecretStr, AfterValidator(_token_of_ours)] | None, _Unset]
SigningSecret = Annotated[Annotated[SecretStr, AfterValidator(_signing_key)] | None, _Unset]
DatabaseAddress = Annotated[Annotated[SecretStr, AfterValidator(_postgres)] | None, _Unset]
SecretAddress = Annotated[SecretStr | None, _Unset]  # whoever opens it refuses it
