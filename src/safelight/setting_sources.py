"""Where settings come from besides our own variables: a file, and variables of others' tools."""

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from pydantic_settings import PydanticBaseSettingsSource

from safelight.errors import ConfigurationError

PREFIX: Final = "SAFELIGHT_"
_AWS = {
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION",
    "AWS_DEFAULT_REGION",
}  # fmt: skip


class TomlSource(PydanticBaseSettingsSource):
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


def aws_variables() -> dict[str, str]:
    """What Amazon's own tools take from the environment, by its name without `AWS_`."""
    named = {
        name.removeprefix("AWS_").lower(): os.environ[name] for name in _AWS & os.environ.keys()
    }
    return {name: value for name, value in named.items() if value}
