"""Ports for processes that end and come back: meanwhile, nobody's connection may take them."""

import random
import socket
from contextlib import suppress

_BELOW_THE_SYSTEMS_OWN = range(18_000, 32_000)
_given: set[int] = set()


def lasting_port() -> int:
    """Free, and none that the system gives to connections by itself."""
    while True:
        port = random.choice(_BELOW_THE_SYSTEMS_OWN)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                return port
