"""Whether a client takes what it is sent. For one that does not we would keep it for ever."""

import asyncio
import fcntl
import sys
import termios


class Uptake:
    """Of one connection. Slow is fine: anything that was taken between two looks counts."""

    def __init__(self, transport: asyncio.Transport, now: float) -> None:
        self._transport = transport
        self._owed = 0
        self._since = now

    def moved(self, now: float) -> None:
        self._since = now

    def idle(self, now: float) -> float:
        """For how many seconds nothing was taken of what waits here."""
        waiting = self._transport.get_write_buffer_size()
        owed = waiting and waiting + _sent_and_not_taken(self._transport)
        if not owed or owed != self._owed:
            self._owed, self._since = owed, now
        return now - self._since


def _sent_and_not_taken(transport: asyncio.Transport) -> int:
    """The system keeps megabytes for a client, and asks for more only when a third of them is gone:
    with a slow one that can take minutes. Systems that do not tell count as keeping nothing."""
    try:
        line = transport.get_extra_info("socket")
        answer = fcntl.ioctl(line.fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(answer, sys.byteorder)
