"""What is installed is pinned, file by file: nothing that was replaced at its source gets in."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ("runtime.txt", "dev.txt", "bench.txt")


def _locked(name: str) -> dict[str, str]:
    """Each requirement's own text, hashes included, by its name."""
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    return {re.split(r"[=;\s]", line, maxsplit=1)[0]: line for line in text.splitlines()}


def _asked(*extras: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return {re.split(r"[^\w.-]", one, maxsplit=1)[0].lower() for one in wanted}


@pytest.mark.parametrize("lock", LOCKS)
def test_each_is_pinned_and_has_hashes(lock: str) -> None:
    assert [
        name
        for name, line in _locked(lock).items()
        if not re.match(rf"{re.escape(name)}==\S+ .*--hash=sha256:[0-9a-f]{{64}}", line)
    ] == []


def test_nothing_asked_for_is_left_to_chance() -> None:
    assert _asked("build") - set(_locked("runtime.txt")) == set()
    assert _asked("build", "dev") - set(_locked("dev.txt")) == set()
    assert _asked("bench") - set(_locked("bench.txt")) == set()


def test_tests_run_on_what_is_shipped() -> None:
    runtime, dev = _locked("runtime.txt"), _locked("dev.txt")
    assert {name for name, line in runtime.items() if dev.get(name) != line} == set()
