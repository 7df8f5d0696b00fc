"""Rules about the source itself that the linters cannot see."""

import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import grimp
import pytest

import safelight
from gates import architecture
from gates.sources import clean
from points import sources

ROOT = Path(safelight.__file__).parent
PROJECT = ROOT.parents[1]
FENCED = {"asyncpg", "fastapi", "starlette", "typer", "onnxruntime"}
BUCKETS = {"utils", "util", "helpers", "common", "misc", "shared", "base_service"}


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("safelight", cache_dir=None)


def pure_modules() -> list[str]:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [pure] = [c for c in contracts["contracts"] if c["name"].startswith("Pure files")]
    return list(pure["source_modules"])


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_pure_modules_pull_in_nothing_fenced() -> None:
    """A re-export in an __init__ would, and the import linter would not see it."""
    assert FENCED & loaded_by(f"import {', '.join(pure_modules())}") == set()


def test_pure_modules_are_listed_in_order() -> None:
    assert pure_modules() == sorted(pure_modules())


def test_files_and_functions_fit_on_a_screen() -> None:
    clean(architecture.too_long(sources()))


def test_a_class_has_its_name_for_itself() -> None:
    clean(architecture.names_with_two_meanings(sources()))


def test_records_stand_beside_the_lifecycle() -> None:
    clean(architecture.records_in_repos(sources()))


def test_jobs_are_declared_without_their_handlers() -> None:
    modules = {name: graph().find_modules_directly_imported_by(name) for name in graph().modules}
    clean(architecture.heavy_jobs(sources(), modules))


def test_imports_go_round_nowhere() -> None:
    """The layers keep features apart; this holds inside of them too."""
    going_round = [name for name in sorted(graph().modules) if _reaches_itself(name)]
    clean(going_round)


def _reaches_itself(name: str) -> bool:
    imported = graph().find_modules_directly_imported_by(name)
    return any(graph().chain_exists(importer=other, imported=name) for other in imported)


def test_nothing_shipped_stands_on_the_testing_kit() -> None:
    kit = {name for name in graph().modules if name.startswith("safelight.testing")}
    assert kit
    users = {user for part in kit for user in graph().find_modules_that_directly_import(part)}
    clean(sorted(users - kit))


def test_no_bucket_modules() -> None:
    assert [path for path in ROOT.rglob("*.py") if path.stem in BUCKETS] == []


def test_inits_are_empty() -> None:
    filled = [p for p in ROOT.rglob("__init__.py") if p.read_text().strip() and p.parent != ROOT]
    assert filled == []


def test_starting_does_not_load_the_model_runtime() -> None:
    """Onnxruntime costs memory and a second; it comes with the first image."""
    assert "onnxruntime" not in loaded_by("import safelight.cli.main")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class Again: ...", ["Again: a.py, b.py"]),
        ("Again = str | None", ["Again: a.py, b.py"]),
        ("class _Again: ...", []),
        ("Other = dict[str, int]", []),
    ],
)
def test_the_gate_sees_a_name_used_twice(text: str, found: list[str]) -> None:
    texts = {"a.py": "class Again: ...\nOther = dict[str, int]", "b.py": text}
    assert architecture.names_with_two_meanings(texts) == found
