"""Whether it was the surroundings: the database, a store, a network, a model, a lack of room.

They come back, and whoever waited goes on; so nothing that failed by them is to blame, and none of
it spends an attempt. Our own errors say so by their class (`errors.Unavailable`); an error of the
operating system is one of these only if it says that there is no room.
"""

import errno
import socket

from safelight.errors import SafelightError, Unavailable
from safelight.infra.db import AWAY

_NO_ROOM = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EAGAIN,  # no process or thread can be started
        errno.EROFS,  # as a file system becomes when its disk fails
    }
)


def is_away(error: BaseException) -> bool:
    if isinstance(error, SafelightError):
        return isinstance(error, Unavailable)
    if isinstance(error, TimeoutError | ConnectionError | socket.gaierror):
        return True
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM
    return isinstance(error, AWAY)
