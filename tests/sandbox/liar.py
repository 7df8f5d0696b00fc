"""A child in an attacker's hands that keeps to the protocol and answers what the bytes say: facts as
JSON, a zero, and data. `render` and `inspect` are asked like the real ones."""

import json
import os
from typing import Any

from safelight.sandbox.protocol import Answer, SandboxTask


def _say(data: bytes, __: dict[str, Any]) -> Answer:
    facts, _, rest = data.partition(b"\0")
    return Answer(json.loads(facts), rest)


def _pid(_: bytes, __: dict[str, Any]) -> Answer:
    return Answer({"pid": os.getpid()})


TASKS: dict[str, SandboxTask] = {"inspect": _say, "render": _say, "pid": _pid}
