"""Tasks for the sandbox that do to their child what the bytes say."""

import os
import signal
import time
from typing import Any

from safelight.sandbox import inspecting, rendering, tasks
from safelight.sandbox.protocol import Answer, SandboxTask, SandboxTasks


def _obey(task: SandboxTask, word: bytes) -> SandboxTask:
    def run(data: bytes, parameters: dict[str, Any]) -> Answer:
        _, _, order = data.partition(word)
        if order.startswith(b"hang"):
            time.sleep(3600)
        if order.startswith(b"eat"):
            bytearray(1 << 40)
        if order.startswith(b"crash"):
            os.kill(os.getpid(), signal.SIGSEGV)
        if order.startswith(b"killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        while order.startswith(b"burn"):
            pass
        if order.startswith(b"lie"):
            return Answer({"views": "what?", "fault": {"kind": "aliens"}})
        if order.startswith(b"invent"):
            return Answer({"exceeded": "aliens", "words": ["what?"]})
        return task(data, parameters)

    return run


TASKS: dict[str, SandboxTask] = {
    "inspect": _obey(inspecting.inspect, b"INSPECT:"),
    "render": _obey(rendering.render, b"RENDER:"),
}


def prepare() -> SandboxTasks:
    tasks.prepare()
    return TASKS
