"""Every step of a write path has a failpoint right before it, and every failpoint stands before one.

A repo's function is declared `@read` or `@write`, and a write has its point by that. Any other
effect (a file, an object's bytes, a provider, a statement outside the repos) has a literal `hit` or
`reach` as the statement right before it. Both directions are checked, so a point that is taken away
is missed: tools/unguard.py takes each one away and looks.

The checks are functions of source text, so that they can be given text that was tampered with.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeGuard

from gates import sql
from points import REACHING, all_points, decorators, parsed, reached

Texts = Mapping[str, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef

# Where statements live besides the repos, each function declared like theirs.
DECLARED_FILES = ("infra/kv.py", "infra/activity.py", "infra/identity.py")
EXEMPT = {
    "cli/": "a person sits before it, and what it calls has its points",
    "infra/db.py": "passes statements on",
    "testing/": "not part of a running server",
}
EFFECTS = {
    f"os.{name}"
    for name in (
        "copy_file_range", "fsync", "fdatasync", "ftruncate", "link", "pwrite", "remove", "rename",
        "replace", "rmdir", "sendfile", "symlink", "truncate", "unlink", "write", "writev",
    )
} | {
    f"shutil.{name}" for name in ("copy", "copyfile", "copyfileobj", "copytree", "move", "rmtree")
} | {
    f"obstore.{name}{kind}"
    for name in ("put", "delete", "copy", "rename")
    for kind in ("", "_async")
}  # fmt: skip
PATH_METHODS = {
    "hardlink_to", "rename", "replace", "rmdir", "symlink_to", "unlink", "write_bytes", "write_text",
}  # fmt: skip
# Of whoever is called like this, its name ending so: these methods change the world.
OF_OTHERS = {
    "store": {"put", "put_with", "delete", "delete_with", "share"},
    "provider": {"submit", "poll", "cancel"},
    "client": {"post", "put", "patch", "delete"},
}
# One effect under a name of its own: calling it is the step.
WRAPPERS = {
    "commit_with", "sync_directory", "sync_tree", "write_all", "_write_all", "write_private",
    "self._upload", "self._delete_bytes",
}  # fmt: skip
_LAST_WORDS = {name.rpartition(".")[2] for name in EFFECTS | WRAPPERS}
STATEMENTS = {"execute", "executemany", "fetch", "fetchrow", "fetchval", "copy_records_to_table"}
# Points before something that is no effect by itself, and what a death there shows.
MARKS = {
    "postgres.copy_binaries": "half of the programs are beside the cluster",
    "postgres.initdb": "half a cluster is there",
    "postgres.launch": "a server is about to run that nobody knows of",
    "postgres.set_password": "nobody knows the new password yet",
    "queue.run": "a worker dies with a job in its hands",
    "sandbox.run": "a child is about to be given untrusted bytes",
    "ingest.open": "a file is about to be made; nothing is there yet",
    "ingest.recorded": "the upload is recorded and nobody was told",
    "submissions.tier1": "a run dies between two states",
    "submissions.tier2": "a run dies between two states",
}
# Effects without a point, by function, and why a death there is no case of its own.
UNGUARDED = {
    "infra/data_directory.py:DirectoryLock.acquire os.ftruncate": "the lock is the kernel's",
    "infra/data_directory.py:DirectoryLock.acquire os.pwrite": "words for people",
    "infra/data_directory.py:_recorded_socket_directory write_private": "an empty directory is left",
    "infra/data_directory.py:open_to safelight.infra.files.sync_directory": (
        "whoever starts next makes the directory again"
    ),
    "infra/data_directory.py:remove_socket_directory "
    "Path(directory.socket_record.read_text()).rmdir": "an empty directory is left",
    "infra/data_directory.py:remove_socket_directory directory.socket_record.unlink": (
        "a record is left, and used again"
    ),
    "infra/postgres/binaries.py:_copy_part shutil.copyfile": "behind postgres.copy_binaries",
    "infra/postgres/binaries.py:_copy safelight.infra.files.sync_directory": (
        "behind postgres.publish_binaries: whoever starts next finds a copy or none"
    ),
    "infra/postgres/binaries.py:_discard_copies shutil.rmtree": "the rest goes next time",
    "infra/postgres/cluster.py:_make_cluster safelight.infra.files.sync_directory": (
        "behind postgres.publish_cluster: whoever starts next finds a cluster or none"
    ),
    "infra/postgres/cluster.py:ensure_cluster safelight.infra.data_directory.write_private": (
        "a file that is the same at every start"
    ),
    "infra/postgres/cluster.py:ensure_cluster shutil.rmtree": "the rest goes next time",
    "infra/postgres/cluster.py:until_alone (cluster / 'postmaster.pid').unlink": (
        "a file of a server that is gone"
    ),
    "infra/postgres/process.py:Postmaster.rise "
    "(self._socket_directory / f'{SOCKET_NAME}.lock').unlink": "a file of a server that is gone",
    "infra/postgres/process.py:Postmaster.cap_log os.truncate": "a log is longer than it should be",
    "infra/postgres/process.py:Postmaster.cap_log shutil.copyfile": "a log is there twice",
    "infra/postgres/server.py:EmbeddedPostgres.start self._directory.url.unlink": (
        "no address is published while nothing runs"
    ),
    "infra/postgres/server.py:EmbeddedPostgres.stop self._directory.url.unlink": (
        "an address without a server is known for what it is"
    ),
    "library/deletion.py:UploadDeletion.request self._store.delete_with": (
        "the store's steps have theirs, and so has library.delete, which it ends with"
    ),
}
# A point's first word, where it is not a part of the file's path.
ALSO_CALLED = {"unit": "infra/activity.py"}


# (a) Declared


def is_repo(file: str) -> bool:
    return file.endswith("repo.py") or file in DECLARED_FILES


def undeclared(texts: Texts) -> list[str]:
    """A repo's function that says neither; or says both; or hides in a class."""
    found = []
    for file, text in texts.items():
        if not is_repo(file):
            continue
        tree = parsed(text)
        for node in tree.body:
            if isinstance(node, Function) and not node.name.startswith("_"):
                declared = {"read", "write"} & decorators(node)
                if len(declared) != 1 and (isinstance(node, ast.AsyncFunctionDef) or declared):
                    found.append(f"{file}:{node.name}")
            if isinstance(node, ast.ClassDef) and file.endswith("repo.py"):
                inner = [n for n in ast.walk(node) if isinstance(n, ast.AsyncFunctionDef)]
                found += [f"{file}:{node.name}.{method.name}" for method in inner]
    return found


def statements_elsewhere(texts: Texts) -> list[str]:
    """SQL outside the repos and infra."""
    return [
        f"{file}:{node.lineno}"
        for file, text in texts.items()
        if not is_repo(file) and not file.startswith(("infra/", "testing/"))
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Call) and _is_statement(node)
    ]


# (b) Reads read


def mislabelled(texts: Texts, functions: Mapping[str, str]) -> list[str]:
    """A read that writes, by itself or by a function in sql/; and a write that does not."""
    writing = sql.writing_functions(functions)
    found = []
    for file, text in texts.items():
        if not is_repo(file):
            continue
        module = parsed(text)
        names = _definitions(module)
        for node in module.body:
            if not isinstance(node, ast.AsyncFunctionDef):
                continue
            statement = _text_of(node, names)
            changes = sql.writes(statement) or bool(writing & sql.called(statement))
            if "read" in decorators(node) and changes:
                found.append(f"{file}:{node.name} is a read and writes")
            if "write" in decorators(node) and not changes and not _calls_a_write(node, names):
                found.append(f"{file}:{node.name} is a write and only reads")
    return found


def _definitions(module: ast.Module) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for node in module.body:
        if isinstance(node, Function):
            found[node.name] = node
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value:
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = node
    return found


def _text_of(
    node: ast.AST, names: Mapping[str, ast.AST], seen: frozenset[str] = frozenset()
) -> str:
    """Every string in it, and in whatever of this module it uses."""
    parts = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            parts.append(inner.value)
        elif isinstance(inner, ast.Name) and inner.id in names and inner.id not in seen:
            parts.append(_text_of(names[inner.id], names, seen | {inner.id}))
    return sql.uncommented("\n".join(parts))


def _calls_a_write(node: ast.AST, names: Mapping[str, ast.AST]) -> bool:
    """Of this module or another repo: `kv.put`, `queue.cancel`."""
    callers = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    del names
    return any(isinstance(f, ast.Attribute) and f.attr not in STATEMENTS for f in callers)


# (c) Effects elsewhere


def unguarded(texts: Texts) -> list[str]:
    """An effect without a point right before it; and an exception that nobody needs."""
    found, exceptions = [], set(UNGUARDED)
    for file, text in texts.items():
        for line, name in effects(file, text):
            if name in UNGUARDED:
                exceptions.discard(name)
            else:
                found.append(f"{name} (line {line})")
    return found + [f"{name} needs no exception" for name in sorted(exceptions)]


def aimless(texts: Texts) -> list[str]:
    """A literal point with no effect right behind it: nobody would miss it."""
    found, marks = [], dict(MARKS)
    for file, text in texts.items():
        tree = parsed(text)
        known = _Known(tree, file)
        for before, statement in _pairs(tree):
            name = point_of(before)
            if name is None:
                continue
            if name in marks:
                del marks[name]
                continue
            if statement is None or not known.effects_of(_next_step(statement)):
                found.append(f"{file}:{before.lineno} {name}")
    return found + [f"{name} is marked and is no point" for name in marks]


def point_of(statement: ast.stmt) -> str | None:
    """The name, if the statement is a point and nothing else."""
    if not isinstance(statement, ast.Expr):
        return None
    call = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    return reached(call) if isinstance(call, ast.Call) else None


def effects(file: str, text: str) -> Iterator[tuple[int, str]]:
    """Those without a point right before them: line, and `file:function effect`."""
    if file.startswith(tuple(EXEMPT)):
        return
    tree = parsed(text)
    known, within = _Known(tree, file), _within(tree)
    exempt = partial(_is_exempt, file=file)
    for statement, before in _with_the_one_before(tree.body, None, exempt):
        done = known.effects_of(_own(statement))
        if done and not (before and point_of(before)):
            yield statement.lineno, f"{file}:{within.get(id(statement), '')} {done[0]}"


def _within(tree: ast.Module) -> dict[int, str]:
    """The function each statement stands in."""
    found: dict[int, str] = {}

    def walk(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            found[id(child)] = name
            if isinstance(child, Function | ast.ClassDef):
                walk(child, f"{name}.{child.name}".lstrip("."))
            else:
                walk(child, name)

    walk(tree, "")
    return found


def _is_exempt(function: ast.stmt, file: str) -> bool:
    """A wrapper's body, and what is declared a read or a write."""
    if not isinstance(function, Function):
        return False
    declared = is_repo(file) and {"read", "write"} & decorators(function)
    private = file.endswith("repo.py") and function.name.startswith("_")
    return bool({function.name, f"self.{function.name}"} & WRAPPERS) or bool(declared) or private


def _with_the_one_before(
    block: Iterable[ast.stmt], before: ast.stmt | None, exempt: Callable[[ast.stmt], bool]
) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each statement with the one that ran before it. What `with` and `try` begin with comes right
    after what stands before them; what a loop, a branch or a function begins with does not."""
    for statement in block:
        yield statement, before
        if exempt(statement):
            before = statement
            continue
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(statement, name, None)
            if not isinstance(inner, list):
                continue
            straight = name == "body" and isinstance(statement, ast.With | ast.AsyncWith | ast.Try)
            for child in inner if name in {"handlers", "cases"} else [None]:
                nested = inner if child is None else child.body
                yield from _with_the_one_before(nested, before if straight else None, exempt)
        before = statement


def _pairs(tree: ast.AST) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each statement with the one behind it in its block."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from zip(block, [*block[1:], None], strict=False)


def _next_step(statement: ast.stmt) -> list[ast.AST]:
    """What runs first: into a `with` or `try` that begins here."""
    parts = _own(statement)
    if isinstance(statement, ast.With | ast.AsyncWith | ast.Try):
        parts += _next_step(statement.body[0])
    return parts


def _own(statement: ast.stmt) -> list[ast.AST]:
    """The statement without the blocks below it."""
    if isinstance(statement, Function | ast.ClassDef):
        return list(statement.decorator_list)
    skipped = {"body", "orelse", "finalbody", "handlers", "cases"}
    return [
        child
        for name, value in ast.iter_fields(statement)
        if name not in skipped
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, ast.AST)
    ]


class _Known:
    """What the names of a module stand for."""

    def __init__(self, tree: ast.Module, file: str) -> None:
        self._means: dict[str, str] = {}
        self._constants = _definitions(tree)
        self._sql = file.startswith("infra/") and not is_repo(file)
        self._sql |= file in DECLARED_FILES
        self._stores = file.startswith("objects/")
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._means[alias.asname or alias.name] = alias.name
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self._means[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
                for target in node.targets:  # `fsync = os.fsync`
                    if isinstance(target, ast.Name):
                        self._means.setdefault(target.id, self._resolved(node.value))

    def effects_of(self, parts: Iterable[ast.AST]) -> list[str]:
        """Called, or handed to somebody who calls it."""
        found = []
        for part in parts:
            for node in ast.walk(part):
                if isinstance(node, ast.Call) and (name := self._call(node)):
                    found.append(name)
                elif isinstance(node, ast.Attribute | ast.Name) and self._interesting(node):
                    name = self._resolved(node)
                    if {name, name.rpartition(".")[2]} & (EFFECTS | WRAPPERS):
                        found.append(name)
        return found

    def _interesting(self, node: ast.Attribute | ast.Name) -> bool:
        """Quickly: whether its last word could be an effect's."""
        if isinstance(node, ast.Attribute):
            return node.attr in _LAST_WORDS
        return self._means.get(node.id, node.id).rpartition(".")[2] in _LAST_WORDS

    def _resolved(self, node: ast.expr) -> str:
        name = ast.unparse(node)
        first, dot, rest = name.partition(".")
        return self._means.get(first, first) + dot + rest

    def _call(self, call: ast.Call) -> str | None:
        name = ast.unparse(call.func)
        if self._stores and name == "write" and _is_last_step(call):
            return name  # the last step of a put or delete: a function of whoever asked for it
        if not isinstance(call.func, ast.Attribute):
            return None
        method, owner = call.func.attr, ast.unparse(call.func.value).lower()
        if any(owner.endswith(end) and method in methods for end, methods in OF_OTHERS.items()):
            return name
        if self._sql and _is_statement(call) and self._may_write(call.args[0]):
            return name
        return name if method in PATH_METHODS and not _is_text_replace(call) else None

    def _may_write(self, statement: ast.expr) -> bool:
        names = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name)]
        if not set(names) <= self._constants.keys():
            return True  # made elsewhere
        text = _text_of(statement, self._constants)
        return sql.writes(text) or bool(sql.shipped_writing() & sql.called(text))


def _is_last_step(call: ast.Call) -> bool:
    return bool(call.args) and ast.unparse(call.args[0]).startswith(("landed", "Cleared("))


def _is_statement(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in STATEMENTS and bool(call.args)


def _is_text_replace(call: ast.Call) -> bool:
    """`str.replace(a, b)` and `datetime.replace(hour=0)`, unlike `Path.replace(target)`, change
    nothing outside; nor does `dataclasses.replace`."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "replace":
        return False
    module = ast.unparse(call.func.value) in {"dataclasses", "copy"}
    return len(call.args) != 1 or bool(call.keywords) or module


# (d) Names


def ill_named(texts: Texts) -> list[str]:
    """Two places of one name; a name that does not say where it is; one made at run time."""
    points = all_points(texts)
    twice = [name for name, count in Counter(p.name for p in points).items() if count > 1]
    found = [f"{name} stands in two places" for name in twice]
    for point in points:
        first, dot, _ = point.name.partition(".")
        parts = point.file.removesuffix(".py").split("/")
        if not dot or (first not in parts and ALSO_CALLED.get(first) != point.file):
            found.append(f"{point.file}:{point.line} {point.name} does not say its feature")
    for file, text in texts.items():
        if file in {"infra/db.py", "infra/failpoints.py"}:
            continue
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Call) and _is_point_without_literal(node):
                found.append(f"{file}:{node.lineno} a point's name is a literal")
    return found


def _is_point_without_literal(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")
    ours = name[0] in {"", "failpoints"} and name[2] in REACHING
    return ours and reached(call) is None


# (e) Killed


def unkilled(texts: Texts, tests: Texts, excused: Iterable[str]) -> list[str]:
    """Points that no test arms: not by name, not by a list from `points_of`; and excuses for points
    that are gone or are killed."""
    points = {point.name for point in all_points(texts)}
    armed: set[str] = set()
    for text in tests.values():
        armed |= armed_in(parsed(text), points)
    missing = sorted(points - armed - set(excused))
    return missing + [
        f"{name} needs no excuse" for name in excused if name in armed or name not in points
    ]


def armed_in(tree: ast.Module, points: set[str]) -> set[str]:
    """The points that a test module names, or takes from `points_of`."""
    lists = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_list(n)]
    names = _definitions(tree)
    left_out = [names[k.value.id] for c in lists for k in c.keywords if _is_known(k.value, names)]
    inside = {id(inner) for node in [*lists, *left_out] for inner in ast.walk(node)}
    words = {
        word.partition("=")[0].strip()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside
        for word in node.value.split(",")
    }
    found = words & points
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            first = str(node.values[0].value)
            found |= {first + word for word in words} & points
    for call in lists:
        found |= _listed(call, names, points)
    return found


def _is_list(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "points_of"


def _is_known(node: ast.expr, names: Mapping[str, ast.AST]) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id in names


def _listed(call: ast.Call, names: Mapping[str, ast.AST], points: set[str]) -> set[str]:
    prefixes = tuple(re.findall(r"[\w.]+", " ".join(_strings(call.args, names))))
    without = set(_strings([keyword.value for keyword in call.keywords], names))
    return {name for name in points if prefixes and name.startswith(prefixes)} - without


def _strings(nodes: Iterable[ast.expr], names: Mapping[str, ast.AST]) -> list[str]:
    return [
        inner.value
        for node in nodes
        for inner in ast.walk(names[node.id] if _is_known(node, names) else node)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    ]
