"""What a child may use."""

import json
import resource
from contextlib import suppress
from dataclasses import asdict, dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Of one task. `memory_bytes` is beyond what the loaded code takes; `wall_seconds` is for
    whoever asks to enforce, the others are the kernel's."""

    memory_bytes: int = 2048 * _MIB
    cpu_seconds: float = 20
    wall_seconds: float = 30.0
    answer_bytes: int = 128 * _MIB

    @property
    def growth_bytes(self) -> int:
        """A child that keeps this much beyond what it began with makes room for a new one."""
        return self.memory_bytes // 8

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "SandboxLimits":
        return cls(**json.loads(text))

    def apply(self, mapped_bytes: int, descriptors: int) -> bool:
        """In the child, which has mapped so much by now and may have so many descriptors open. The
        processor's time is counted for each task, see child.py."""
        space = mapped_bytes + self.memory_bytes
        for what, most in (
            (resource.RLIMIT_AS, space),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_NOFILE, descriptors),
        ):
            with suppress(ValueError, OSError):  # a stricter limit is in force already
                resource.setrlimit(what, (most, most))
        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        return 0 <= soft <= space


def no_processes() -> None:
    """Nor threads, which some decoders want: only where nothing else forbids to start programs."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
