"""Every step of a write path has a failpoint right before it, and every failpoint stands before one.

A repo's function is declared `@read` or `@write`, and a write has its point by that. Any other
effect (a file, an object's bytes, a provider, a statement outside the repos) has a literal `hit` or
`reach` as the statement right before it. Both directions are checked, so a point that is taken away
is missed: tools/unguard.py takes each one away and looks.

The checks are functions of source text, so that they can be given text that was tampered with.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from gates import sql
from gates.effects import (
    DECLARED_FILES,
    EFFECTS,
    EXEMPT,
    LAST_WORDS,
    MARKS,
    OF_OTHERS,
    PATH_METHODS,
    STATEMENTS,
    UNGUARDED,
    WRAPPERS,
)
from points import REACHING, all_points, decorators, parsed, reached

Texts = Mapping[str, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef

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
        names = definitions(module)
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


def definitions(module: ast.Module) -> dict[str, ast.AST]:
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
        self._constants = definitions(tree)
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
            return node.attr in LAST_WORDS
        return self._means.get(node.id, node.id).rpartition(".")[2] in LAST_WORDS

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
