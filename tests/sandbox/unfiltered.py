"""The exploited child again, where the kernel has no seccomp: a kit is loaded before the lock."""

from safelight.sandbox import seccomp
from safelight.sandbox.protocol import SandboxTasks
from sandbox import exploited


def prepare() -> SandboxTasks:
    seccomp.install = lambda: False
    return exploited.prepare()
