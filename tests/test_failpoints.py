"""Every step of a write path has a failpoint right before it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import safelight
from safelight.infra import failpoints

ROOT = Path(safelight.__file__).parent
# What changes the world outside this process's memory. Reading, closing and locking do not.
EFFECTS = {
    "os.fsync", "os.rename", "os.replace", "os.link", "os.unlink", "os.write", "os.writev",
    "os.truncate", "os.ftruncate", "os.sendfile", "os.copy_file_range", "shutil.copyfileobj",
    "shutil.move", "shutil.rmtree",
}  # fmt: skip
METHODS = {"unlink", "rename", "replace", "write_bytes", "write_text", "hardlink_to", "symlink_to"}
# Features are held to it whole; infra where it writes on behalf of one.
FOLDERS = [
    folder
    for folder in ("ingest", "objects", "library", "classification", "generations", "submissions")
    if (ROOT / folder).is_dir()
]
POINTS = {"hit", "reach"}
# One effect under a name of its own: calling it is the step.
WRAPPERS = {"sync_directory", "_write_all"}


def statements(tree: ast.AST) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each simple statement with the one before it in its block."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                for before, statement in zip([None, *block], block, strict=False):
                    yield statement, before


def calls(statement: ast.stmt) -> Iterator[str]:
    """Names called directly in this statement, not in blocks below it."""
    inner = {
        id(node)
        for child in ast.iter_child_nodes(statement)
        if isinstance(child, ast.stmt)
        for node in ast.walk(child)
    }
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and id(node) not in inner and not is_text_replace(node):
            yield ast.unparse(node.func)


def is_text_replace(call: ast.Call) -> bool:
    """`str.replace(a, b)` and `datetime.replace(hour=0)`, unlike `Path.replace(target)`, change
    nothing outside."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "replace":
        return False
    return len(call.args) != 1 or bool(call.keywords)


def is_effect(call: str, writes: set[str]) -> bool:
    owner, _, method = call.rpartition(".")
    if call in EFFECTS or call in writes or call in WRAPPERS:
        return True
    return method in METHODS and owner not in {"", "re", "text"} and "name" not in owner


def repo_writes(folder: str) -> set[str]:
    """`repo.f` for every function of the feature's repo whose SQL changes rows."""
    names = set()
    for path in (ROOT / folder).glob("repo.py"):
        module = ast.parse(path.read_text())
        constants = {
            target.id: ast.unparse(node.value)
            for node in module.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in module.body:
            if isinstance(node, ast.AsyncFunctionDef):
                text = ast.unparse(node) + "".join(
                    constants.get(n.id, "") for n in ast.walk(node) if isinstance(n, ast.Name)
                )
                if any(word in text for word in ("INSERT ", "UPDATE ", "DELETE ", "job_enqueue(")):
                    names.add(f"repo.{node.name}")
    return names


def unguarded(path: Path, writes: set[str]) -> list[str]:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in WRAPPERS:
            node.body = [ast.Pass()]
    missing = []
    for statement, before in statements(tree):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if any(is_effect(call, writes) for call in calls(statement)):
            guarded = before is not None and POINTS & set(calls(before))
            if not guarded:
                missing.append(f"{path.relative_to(ROOT)}:{statement.lineno}")
    return missing


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_step_has_a_failpoint(folder: str) -> None:
    writes = repo_writes(folder)
    files = [path for path in (ROOT / folder).rglob("*.py") if path.name != "repo.py"]
    assert [place for path in files for place in unguarded(path, writes)] == []


def all_points() -> list[str]:
    names = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in POINTS and node.args:
                argument = node.args[0]
                assert isinstance(argument, ast.Constant), (
                    f"{path}: a failpoint's name is a literal"
                )
                names.append(str(argument.value))
    return names


def test_names_say_their_feature() -> None:
    assert all("." in name for name in all_points())


def test_actions() -> None:
    failpoints.arm_all("a=raise, b=enospc@2")
    with pytest.raises(failpoints.FailpointError):
        failpoints.hit("a")
    failpoints.hit("b")
    with pytest.raises(OSError, match="No space left"):
        failpoints.hit("b")
    failpoints.hit("b")
    failpoints.disarm()
    failpoints.hit("a")
    with pytest.raises(ValueError, match="is not one of"):
        failpoints.arm("a", "explode")
