"""Who goes first on a busy machine: whoever answers requests. What takes the processor for long
steps back behind that, by as much as leaves it a share even then."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_STEPS: Final = 5


def step_back() -> None:
    """The calling thread, and what it starts from now on. Systems that share the processor between
    sessions first ask for it to be said of the session, too."""
    if sys.platform != "linux":
        return  # elsewhere it would be said of the whole process
    os.nice(_STEPS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(_STEPS))
