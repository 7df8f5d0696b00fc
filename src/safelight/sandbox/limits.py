"""What a child may use. `apply` is for the child itself, before it reads its first byte."""

import json
import os
import resource
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """`memory_bytes` is beyond what the preloaded code takes; `wall_seconds` is the server's to
    enforce, the others are the kernel's."""

    memory_bytes: int = 1024 * _MIB
    cpu_seconds: int = 20
    wall_seconds: float = 30.0
    answer_bytes: int = 128 * _MIB

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "SandboxLimits":
        return cls(**json.loads(text))

    def apply(self) -> None:
        """Without descriptors left to open there are no files and no network either; those that
        are open stay so. The processor's soft limit comes first and has a signal of its own."""
        space = _address_space() + self.memory_bytes
        for what, soft, hard in (
            (resource.RLIMIT_AS, space, space),
            (resource.RLIMIT_CPU, self.cpu_seconds, self.cpu_seconds + 2),
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_FSIZE, 0, 0),
            (resource.RLIMIT_NPROC, 0, 0),
            (resource.RLIMIT_NOFILE, 0, 0),
        ):
            with suppress(ValueError, OSError):  # a stricter limit is in force already
                resource.setrlimit(what, (soft, hard))


def _address_space() -> int:
    """What the process has mapped by now. Where the system does not tell, room enough for it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 512 * _MIB
    return pages * os.sysconf("SC_PAGE_SIZE")
