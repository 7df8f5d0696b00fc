"""Rules about the source itself that the linters cannot see."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import safelight

ROOT = Path(safelight.__file__).parent
PROJECT = ROOT.parents[1]
FENCED = {"asyncpg", "fastapi", "starlette", "typer", "onnxruntime"}
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
BUCKETS = {"utils", "util", "helpers", "common", "misc", "shared", "base_service"}


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def pure_modules() -> list[str]:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [pure] = [c for c in contracts["contracts"] if c["name"].startswith("Pure files")]
    return list(pure["source_modules"])


@pytest.mark.parametrize("module", pure_modules())
def test_a_pure_module_pulls_in_nothing_fenced(module: str) -> None:
    """A re-export in an __init__ would, and the import linter would not see it."""
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert FENCED & set(loaded.stdout.split()) == set()


def test_files_and_functions_fit_on_a_screen() -> None:
    long = []
    for path in sources():
        text = path.read_text()
        if len(text.splitlines()) > LONGEST_FILE:
            long.append(str(path.relative_to(ROOT)))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long.append(f"{path.relative_to(ROOT)}:{node.name}")
    assert long == []


def test_no_bucket_modules() -> None:
    assert [path for path in sources() if path.stem in BUCKETS] == []


def test_inits_are_empty() -> None:
    filled = [p for p in ROOT.rglob("__init__.py") if p.read_text().strip() and p.parent != ROOT]
    assert filled == []


def test_starting_does_not_load_the_model_runtime() -> None:
    """Onnxruntime costs memory and a second; it comes with the first image."""
    code = "import sys, safelight.cli.main; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "onnxruntime" not in loaded.stdout.split()
