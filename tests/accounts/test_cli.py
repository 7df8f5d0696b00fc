"""`safelight tokens`, `users` and `organizations`, run in this process on a real database."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from accounts.world import HandClock
from commands import Run, executing
from harness import running
from safelight import __version__
from safelight.accounts.first_start import first_start
from safelight.accounts.guard import Credentials
from safelight.accounts.known import KnownCallers
from safelight.cli.accounts import parse_duration
from safelight.cli.main import exit_code
from safelight.errors import (
    ConfigurationError,
    Conflict,
    Forbidden,
    InvalidRequest,
    SafelightError,
    Unavailable,
)
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds, SystemClock
from safelight.infra.postgres.server import NoServer
from safelight.settings import load


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database_url: str
) -> Iterator[Run]:
    """Runs the command; gives its exit code, output and complaints."""
    monkeypatch.setenv("SAFELIGHT_DATABASE_URL", database_url)

    with executing(monkeypatch, capsys) as execute:
        yield execute


@pytest.fixture
def set_up(database_url: str) -> None:
    with_database(database_url, lambda db: first_start(units(db), load(), RandomIds()))


def units(db: Database) -> Units:
    return Units(db, Bus(db, "test"), HandClock())


def with_database(url: str, act: Callable[[Database], Any]) -> Any:
    async def inside() -> Any:
        db = await Database.open(url, pool_size=2)
        try:
            return await act(db)
        finally:
            await db.close()

    return asyncio.run(inside())


def rows(run: Run, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    listed: list[dict[str, Any]] = json.loads(out)
    return listed


def caller_of(url: str, secret: str) -> Any:
    return with_database(
        url,
        lambda db: Credentials(db, SystemClock(), "k", KnownCallers(Bus(db, "test"))).of_token(
            secret
        ),
    )


@pytest.mark.usefixtures("set_up")
def test_tokens(run: Run, database_url: str) -> None:
    code, out, err = run(
        "tokens", "create", "--organization", "default", "--role", "member", "--json"
    )
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert set(made) == {"token"}
    caller = caller_of(database_url, made["token"])
    assert caller.organizations == {"default": "member"}
    [listed] = rows(run, "tokens", "list")
    assert (listed["role"], listed["createdBy"]) == ("member", "command line")
    code, out, _ = run("tokens", "revoke", listed["id"])
    assert (code, out) == (0, f"{listed['id']} is revoked.\n")
    assert caller_of(database_url, made["token"]) is None
    assert rows(run, "tokens", "list", "--organization", "elsewhere") == []


@pytest.mark.usefixtures("set_up")
def test_a_token_with_everything(run: Run, database_url: str) -> None:
    options = ["--organization", "default", "--role", "admin", "--operator"]
    code, out, _ = run("tokens", "create", *options, "--name", "ci", "--expires", "30d")
    assert code == 0
    caller = caller_of(database_url, out.strip())
    assert (caller.name, caller.operator) == ("ci", True)
    assert rows(run, "tokens", "list")[0]["expiresAt"] is not None


@pytest.mark.usefixtures("set_up")
def test_users(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFELIGHT_PUBLIC_URL", "https://images.example.org")
    code, out, _ = run("users", "create", "bob", "--organization", "default", "--role", "viewer")
    assert code == 0
    assert "bob is viewer in default." in out
    assert re.search(r"^https://images\.example\.org/login\?code=[\w-]{40,}$", out, re.MULTILINE)
    options = ["--organization", "default", "--role", "admin", "--operator", "--json"]
    code, out, _ = run("users", "create", "bob", *options, "--existing")
    assert code == 0
    assert json.loads(out)["signInLink"].startswith("https://images.example.org/login?code=")
    assert json.loads(out)["invited"] is False
    bob, operator = rows(run, "users", "list")
    assert (bob["username"], bob["organizations"], bob["operator"]) == (
        "bob",
        {"default": "admin"},
        True,
    )
    assert operator["username"] == "operator"
    assert run("users", "revoke", "bob")[:2] == (0, "bob is revoked.\n")
    bob = rows(run, "users", "list")[0]
    assert (bob["organizations"], bob["operator"]) == ({}, False)
    assert bob["revokedAt"] is not None


def roles_of(run: Run, name: str) -> tuple[dict[str, str], bool]:
    [found] = [row for row in rows(run, "users", "list") if row["username"] == name]
    return found["organizations"], found["operator"]


@pytest.mark.usefixtures("set_up")
def test_somebody_who_is_there_already_is_invited(run: Run) -> None:
    """Whoever made that account knows its password, and may be somebody else."""
    run("organizations", "create", "globex")
    run("users", "create", "dora", "--organization", "default", "--role", "viewer")
    options = ["--organization", "globex", "--role", "admin"]
    code, out, _ = run("users", "create", "dora", *options)
    assert code == 0
    assert re.search(r"has an account already, since \d{4}-\d\d-\d\d, in one organization", out)
    assert "sign in as dora and accept" in out
    assert roles_of(run, "dora") == ({"default": "viewer"}, False)
    _, out, _ = run("users", "create", "dora", *options, "--json")
    assert json.loads(out)["invited"] is True


@pytest.mark.usefixtures("set_up")
@pytest.mark.parametrize("organization", ["default", "globex"])
def test_nobody_who_is_there_already_becomes_operator_unasked(run: Run, organization: str) -> None:
    run("organizations", "create", "globex")
    run("users", "create", "dora", "--organization", "default", "--role", "viewer")
    options = ["--organization", organization, "--role", "admin", "--operator"]
    code, _, complaint = run("users", "create", "dora", *options)
    assert code == 4
    assert "--existing" in complaint
    assert roles_of(run, "dora") == ({"default": "viewer"}, False)
    assert run("users", "create", "dora", *options, "--existing")[0] == 0
    role = "admin" if organization == "default" else "viewer"
    assert roles_of(run, "dora") == ({"default": role}, True)
    assert run("users", "create", "dora", *options)[0] == 0, "it changes nothing"


@pytest.mark.usefixtures("set_up")
def test_a_link_whose_server_nobody_knows_is_a_path(run: Run) -> None:
    code, out, _ = run("users", "create", "bob", "--organization", "default", "--role", "viewer")
    assert code == 0
    assert re.search(r"^/login\?code=[\w-]{40,}$", out, re.MULTILINE)
    assert "SAFELIGHT_PUBLIC_URL" in out


@pytest.mark.usefixtures("set_up")
def test_organizations(run: Run) -> None:
    assert run("organizations", "create", "acme")[:2] == (0, "acme is there.\n")
    assert [row["id"] for row in rows(run, "organizations", "list")] == ["acme", "default"]
    code, out, _ = run("organizations", "list")
    assert out.splitlines()[0] == "id\tcreatedAt"
    assert run("tokens", "create", "--organization", "acme", "--role", "viewer")[0] == 0
    assert run("organizations", "revoke", "acme")[:2] == (0, "acme is closed.\n")
    assert rows(run, "tokens", "list")[0]["revokedAt"] is not None
    assert code == 0


@pytest.mark.usefixtures("set_up")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("tokens create --organization nowhere --role viewer", 4, "There is no such organization."),
        ("tokens revoke tok_none", 4, "There is no such token."),
        ("users revoke nobody", 4, "There is no such user."),
        ("organizations create default", 4, "exists already"),
        ("organizations revoke nowhere", 4, "There is no such organization."),
        ("organizations create Bad_Name", 2, "lower-case"),
        ("organizations create public", 2, "reserved"),
        ("users create Bad --organization default --role viewer", 2, "A username has"),
        ("users create bob --organization default --role king", 2, "king"),
        ("tokens create --organization default --role viewer --operator", 2, "has the role admin"),
        ("tokens create --organization default --role viewer --expires soon", 2, "30d"),
        ("tokens create --role viewer", 2, "--organization"),
        ("tokens", 2, ""),
        ("nonsense", 2, "nonsense"),
    ],
)
def test_refusals_are_one_plain_sentence(run: Run, command: str, code: int, words: str) -> None:
    got, _, complaint = run(*command.split())
    assert got == code
    assert words in " ".join(complaint.replace("│", " ").split())
    assert "Traceback" not in complaint


def test_an_empty_database_says_what_to_do(run: Run) -> None:
    code, _, complaint = run("tokens", "list")
    assert (code, complaint) == (
        2,
        "This database is still empty. Start `safelight serve` once, then try again.\n",
    )


def test_a_database_that_is_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFELIGHT_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    code, _, complaint = run("users", "list")
    assert code == 3
    assert complaint.startswith("The database cannot be reached")


def test_a_data_directory_that_is_not_there(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SAFELIGHT_DATABASE_URL")
    missing = tmp_path / "missing"
    code, _, complaint = run("users", "list", "--data-dir", str(missing))
    assert code == 2
    assert "There is no data directory" in complaint
    assert not missing.exists(), "looking makes nothing"


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"safelight {__version__}\n", "")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "30", "0d", "-1d", "1.5h", "30 d", "1y", "9999999d"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError(), 2),
        (InvalidRequest(), 2),
        (Unavailable(), 3),
        (NoServer(), 3),
        (Forbidden(), 4),
        (Conflict(), 4),
        (SafelightError(), 1),
    ],
)
def test_exit_codes(error: SafelightError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.process
def test_beside_a_running_server(data_dir: Path) -> None:
    with running(data_dir) as server:
        command = [sys.executable, "-m", "safelight", "tokens", "create", "--json"]
        options = ["--organization", "default", "--role", "viewer", "--data-dir", str(data_dir)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
        token = json.loads(done.stdout)["token"]
        me = httpx.get(f"{server.url}/api/me", headers={"authorization": f"Bearer {token}"})
        assert me.json()["organizations"] == [{"id": "default", "role": "viewer"}]
        [link] = re.findall(r"http\S+/login\?code=\S+", "\n".join(server.lines))
        with httpx.Client(follow_redirects=True, headers={"accept": "text/html"}) as browser:
            assert "Sign in as operator" in browser.get(link).text
            first = browser.post(f"{server.url}/login", data={"code": link.partition("=")[2]})
            assert "Choose a password" in first.text
            how = browser.get(f"{server.url}/app/default/settings/tokens")
            assert f"{server.url}/api/upload" in how.text
        assert token not in "\n".join(server.lines)
        assert link.partition("=")[2] not in "\n".join(map(str, server.log()))
        assert user_link(data_dir).startswith(f"{server.url}/login?code=")
    assert user_link(data_dir).startswith("/login?code="), "it has gone"


@pytest.mark.process
def test_the_address_of_a_server_that_was_killed(data_dir: Path) -> None:
    with running(data_dir) as server:
        server.kill()
        assert user_link(data_dir).startswith("/login?code=")


def user_link(data_dir: Path) -> str:
    command = [sys.executable, "-m", "safelight", "users", "create", "bob", "--json"]
    options = ["--organization", "default", "--role", "viewer", "--data-dir", str(data_dir)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    link: str = json.loads(done.stdout)["signInLink"]
    return link


@pytest.mark.usefixtures("set_up")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("INSERT INTO schema_migrations VALUES (9999, 'new', '')", "newer Safelight"),
        ("DELETE FROM schema_migrations WHERE number = 1", "older Safelight"),
    ],
)
def test_tables_of_another_version_are_left_alone(
    run: Run, database_url: str, change: str, words: str
) -> None:
    with_database(database_url, lambda db: db.execute(change))
    code, out, complaint = run("organizations", "create", "acme")
    assert (code, out) == (2, "")
    assert words in complaint
    assert (
        with_database(database_url, lambda db: db.fetchval("SELECT count(*) FROM organizations"))
        == 1
    )
