"""Where this server is reached: the public address, else the one it listens on."""

from safelight.settings import Settings

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - replaced, not bound


class OwnAddress:
    """A process that does not listen itself assumes the one beside it, by the settings."""

    def __init__(self, settings: Settings) -> None:
        self._public = settings.public_url
        self._listening = (settings.host, settings.port)

    def listens(self, host: str, port: int) -> None:
        """Told once the port is known."""
        self._listening = (host, port)

    def __call__(self) -> str:
        if self._public:
            return self._public
        host, port = self._listening
        host = _ANY.get(host, host)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"
