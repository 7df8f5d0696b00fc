"""A kit that cannot be prepared."""

from safelight.errors import ConfigurationError
from safelight.sandbox.protocol import SandboxTasks


def prepare(words: str) -> SandboxTasks:
    raise ConfigurationError(words)
