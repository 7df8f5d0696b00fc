"""What children can do for whoever looks at pictures: one line each."""

from safelight.sandbox.inspecting import inspect
from safelight.sandbox.pictures import set_up
from safelight.sandbox.protocol import SandboxTask, SandboxTasks
from safelight.sandbox.rendering import render
from safelight.sandbox.samples import samples
from safelight.sandbox.small import thumbnail

TASKS: dict[str, SandboxTask] = {"inspect": inspect, "render": render, "thumbnail": thumbnail}

_BOUNDS = {"max_pixels": 10**6, "max_frames": 10, "max_total_pixels": 10**7}


def prepare() -> SandboxTasks:
    set_up()
    for data in samples():
        inspect(data, _BOUNDS)
        render(data, {"max_side": 16, "square": 8})
        thumbnail(data, {"side": 16})
    return TASKS
