"""Runs the tests without a guard, for many guards: what takes long is done once.

Everything is imported and collected once, and there is one PostgreSQL. A first run, of the source
as it is, notes how long each test takes and which functions it comes by: those that PostgreSQL
counted in its database, and those of repos. Without a guard the tests that come by its function are
run first, shortest first, and then the others: PostgreSQL does not count a call that failed. Each
run is a fork, and leaves nothing behind.
"""

import asyncio
import compileall
import importlib
import inspect
import json
import os
import re
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import asyncpg
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = Path("src/safelight")
_PYTEST = (
    "-o", "addopts=", "-o", "timeout=60", "--import-mode=importlib", "-p", "no:terminal",
    "-p", "no:schemathesis", "-p", "no:cacheprovider", "-p", "no:xdist",
    # Those take guards out themselves, and must find them.
    "-k", "not missed_when_gone and not without_the_guard and not without_the_fence",
)  # fmt: skip
# What the server and its driver say of a text that is no statement any more.
_NO_SQL = re.compile(
    r"(?:PostgresSyntax|Undefined\w+|Ambiguous\w+|DatatypeMismatch|Indeterminate\w+|Grouping)Error"
    r"|the server expects \d+ argument"
)


@dataclass(frozen=True)
class Guard:
    path: Path
    function: str
    line: int
    start: int
    stop: int
    without: str
    text: str
    tests: tuple[str, ...]

    @property
    def key(self) -> str:
        """As a note has it: functions in sql/ have names that are theirs alone."""
        return self.function if self.path.suffix == ".sql" else f"{self.path}:{self.function}"

    def __str__(self) -> str:
        return f"{self.path.relative_to(SOURCE)}:{self.line} {self.function}: {self.text}"


@dataclass
class Note:
    """What became of a test, and what it came by."""

    seconds: float = 0.0
    failed: str = ""
    reached: dict[str, None] = field(default_factory=dict)


class Bench:
    """A plugin of pytest that runs the tests once as they are and once without each guard."""

    def __init__(self, scratch: Path, server: Any, asked: Sequence[Guard]) -> None:
        self._scratch, self._server, self._asked = scratch, server, asked
        self._answer = scratch / "answer"
        self._note, self._noting = Note(), False
        self.unmissed = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        noted = self._forked(lambda: self._noted(session)) or {}
        notes = {test: Note(**note) for test, note in noted.items()}
        seconds = sum(note.seconds for note in notes.values())
        print(f"{len(notes)} tests, {seconds:.0f} s", flush=True)
        for test in [test for test, note in notes.items() if note.failed]:
            print(f"left out, since it fails as it is: {test}")
            del notes[test]
        for guard in self._asked:
            mine = [test for test in notes if test.startswith(guard.tests)]
            mine.sort(key=lambda test: (guard.key not in notes[test].reached, notes[test].seconds))
            word = self._without(guard, [items[test] for test in mine], session)
            self.unmissed += not word.startswith("missed")
            print(f"{guard}\n    {word}", flush=True)
        return True

    def _without(self, guard: Guard, tests: list[pytest.Item], session: pytest.Session) -> str:
        """What the tests say without it."""
        copy = self._scratch / guard.path
        source = copy.read_text()
        copy.write_text(source[: guard.start] + guard.without + source[guard.stop :])
        found = self._forked(lambda: self._judged(guard, tests, session))
        copy.write_text(source)
        if found is None:
            return "NO ANSWER: the process died"
        if not (failed := {test: note["failed"] for test, note in found.items() if note["failed"]}):
            return f"NOBODY MISSES IT of {len(found)}"
        [(test, text)] = failed.items()
        broken = _NO_SQL.search(text)
        return f"NO SQL ({broken[0]}: {test})" if broken else f"missed by {test} (of {len(found)})"

    # In a fork

    def _forked(self, work: Callable[[], dict[str, Any]]) -> Any:
        self._answer.unlink(missing_ok=True)
        if (pid := os.fork()) == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                self._answer.write_text(json.dumps(work()))
            except BaseException:  # noqa: BLE001 - the parent's stack is not ours to unwind
                traceback.print_exc()
            os._exit(0)
        try:
            os.waitpid(pid, 0)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        asyncio.run(_drop_databases(self._server.url))
        return json.loads(self._answer.read_text()) if self._answer.exists() else None

    def _noted(self, session: pytest.Session) -> dict[str, Any]:
        self._noting = True
        for path in (ROOT / SOURCE).rglob("repo.py"):
            module = _imported(path.relative_to(ROOT))
            for name, function in _functions(module):
                key = f"{path.relative_to(ROOT)}:{name}"
                setattr(module, name, self._telling(function, key))
        return self._run(session.items, session, stop=False)

    def _judged(
        self, guard: Guard, tests: list[pytest.Item], session: pytest.Session
    ) -> dict[str, Any]:
        if guard.path.suffix == ".py":
            _replace(guard.path, self._scratch)
        return self._run(tests, session, stop=True)

    def _run(
        self, tests: list[pytest.Item], session: pytest.Session, *, stop: bool
    ) -> dict[str, Any]:
        notes = {}
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            self._note, began = Note(), time.monotonic()
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            self._note.seconds = time.monotonic() - began
            notes[test.nodeid] = asdict(self._note)
            if stop and self._note.failed:
                with suppress(Exception):
                    session._setupstate.teardown_exact(None)  # noqa: SLF001
                break
        return notes

    def _telling(self, function: Callable[..., Any], key: str) -> Callable[..., Any]:
        @wraps(function)
        def told(*args: Any, **kwargs: Any) -> Any:
            self._note.reached[key] = None
            return function(*args, **kwargs)

        return told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note.failed = "\n".join([report.longreprtext, *(t for _, t in report.sections)])

    @pytest.hookimpl(specname="pytest_fixture_setup", tryfirst=True)
    def pytest_lend_the_server(self, fixturedef: Any, request: Any) -> object:
        if fixturedef.argname != "postgres":
            return None
        fixturedef.cached_result = (self._server, fixturedef.cache_key(request), None)
        return self._server

    @pytest.hookimpl(specname="pytest_fixture_setup", wrapper=True)
    def pytest_see_the_database(
        self, fixturedef: Any, request: Any
    ) -> Generator[None, object, object]:
        made = yield
        if fixturedef.argname in ("database_url", "shared"):
            url = made if isinstance(made, str) else request.getfixturevalue("shared_url")
            fixturedef.addfinalizer(lambda: self._see(url))
        return made

    def _see(self, url: str) -> None:
        if self._noting:
            self._note.reached |= dict.fromkeys(asyncio.run(_counted(url)))


async def _counted(url: str) -> list[str]:
    """The functions that were called; a backend tells when it ends."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    rows = await connection.fetch("SELECT funcname FROM pg_stat_user_functions WHERE calls > 0")
    await connection.execute("SELECT pg_stat_reset()")
    await connection.close()
    return [row["funcname"] for row in rows]


async def _drop_databases(url: str) -> None:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(
        "SELECT datname FROM pg_database "
        "WHERE NOT datistemplate AND datname NOT IN ('postgres', current_database())"
    )
    for row in rows:
        await connection.execute(f'DROP DATABASE "{row["datname"]}" WITH (FORCE)')
    await connection.close()


def _replace(path: Path, scratch: Path) -> None:
    """The code of a module that everybody has imported, by what its file says now."""
    live = _imported(path)
    changed = runpy.run_path(str(scratch / path), run_name=live.__name__)
    for name, function in _functions(live):
        inspect.unwrap(function).__code__ = inspect.unwrap(changed[name]).__code__
    vars(live).update({name: text for name, text in changed.items() if _is_text(name, text)})


def _is_text(name: str, value: object) -> bool:
    return isinstance(value, str) and not name.startswith("__")


def _imported(path: Path) -> ModuleType:
    return importlib.import_module(".".join(path.relative_to("src").with_suffix("").parts))


def _functions(module: ModuleType) -> list[tuple[str, FunctionType]]:
    """Its own."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [(name, each) for name, each in found if each.__module__ == module.__name__]


def unmissed(asked: Sequence[Guard]) -> int:
    """How many of them nobody misses."""
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # and tidy up
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        shutil.copytree(ROOT / "src", scratch / "src")
        compileall.compile_dir(scratch / "src", quiet=1)
        # What a guard was taken out of is compiled each time: two such files may look the same.
        sys.dont_write_bytecode = True
        os.environ |= {
            "PYTHONPATH": str(scratch / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
        }
        sys.path[:0] = [str(scratch / "src"), str(ROOT / "tests")]
        from conftest import _FAST, reachable_directory
        from safelight.infra.postgres.server import EmbeddedPostgres

        with reachable_directory() as data:
            settings = {**_FAST, "track_functions": "all"}
            server = EmbeddedPostgres(data / "data", extra_settings=settings)
            server.start()
            bench = Bench(scratch, server, asked)
            files = {test for guard in asked for test in guard.tests}
            basetemp = f"--basetemp={scratch / 'tmp'}"
            code = pytest.main([*_PYTEST, basetemp, *sorted(files)], plugins=[bench])
            server.stop()
        return bench.unmissed or int(code)
