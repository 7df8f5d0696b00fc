"""A network for children that does what the bytes tell it to."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from safelight.classification.base import Drawing, ModelError, Prediction, Undecodable
from safelight.classification.network import classify
from safelight.errors import ConfigurationError
from safelight.sandbox.protocol import Answer, SandboxTasks

ANSWER = Prediction("DAISY", 0.5, Drawing(color="#ff8800"), (("DAISY", 0.5),))


def _predict(data: bytes, **_: bool) -> Prediction:
    match data.decode():
        case "undecodable":
            raise Undecodable("no picture", decoder="image file is truncated")
        case "model":
            raise ModelError("The model gave no usable scores.")
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "stop":  # it has begun, and waits for what comes
            os.kill(os.getpid(), signal.SIGSTOP)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "eat":
            bytearray(1 << 40)
        case "burn":
            while True:
                pass
        case "bug":
            raise ValueError
    return ANSWER


def _classify(data: bytes, wanted: dict[str, Any]) -> Answer:
    """What looks like facts is answered as it is: a child may say anything."""
    return Answer(json.loads(data)) if data.startswith(b"{") else classify(_predict, data, wanted)


def prepare(trouble: str = "", held_by: str = "") -> SandboxTasks:
    """For one whose model cannot be read any more, or takes as long to load as a file is there."""
    while held_by and Path(held_by).exists():
        time.sleep(0.01)
    if trouble == "gone":
        raise FileNotFoundError(2, "No such file or directory", "/models/resnet.onnx")
    if trouble:
        raise ConfigurationError("Load model from /models/resnet.onnx failed")
    return {"classify": _classify}
