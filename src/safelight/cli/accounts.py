"""`safelight tokens`, `users` and `organizations`: local commands, whose authority is access to the
database, beside a running server or without one.
"""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from safelight.accounts import repo
from safelight.accounts.access import Grant, Role, Token, User
from safelight.accounts.members import Members, Welcomed
from safelight.accounts.show import show_token
from safelight.accounts.tokens import Tokens
from safelight.accounts.uses import repo as uses_repo
from safelight.cli.local import AsJson, Local, run_local
from safelight.cli.output import show_rows
from safelight.cli.serve import DataDir
from safelight.infra.data_directory import DataDirectory
from safelight.infra.db import Database
from safelight.infra.injected import SystemClock, day, iso
from safelight.objects.keys import InvalidOrganizationId, check_organization_id
from safelight.settings import Settings

T = TypeVar("T")

tokens = typer.Typer(help="API tokens: make, list, revoke.", no_args_is_help=True)
users = typer.Typer(help="People: let in, list, revoke.", no_args_is_help=True)
organizations = typer.Typer(help="Organizations: make, list, close.", no_args_is_help=True)

InOrganization = Annotated[str, typer.Option("--organization", help="In which organization.")]
WithRole = Annotated[Role, typer.Option("--role", help="What they may do there.")]
OperatorFlag = Annotated[
    bool, typer.Option("--operator", help="Also operator of the whole server.")
]

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([1-9]\d{0,5})([mhdw])")


@dataclass(frozen=True)
class Desk:
    """What these commands work with."""

    settings: Settings
    db: Database
    clock: SystemClock
    tokens: Tokens
    members: Members

    def address(self, path: str) -> str:
        """With the server's address in front, where it is known."""
        return (self.settings.public_url or _running_server(self.settings) or "") + path


@tokens.command("create")
def create_token(
    organization: InOrganization,
    role: WithRole,
    name: Annotated[str, typer.Option(help="What it is for.")] = "command line",
    expires: Annotated[str | None, typer.Option(help="Such as 30d, 12h or 2w.")] = None,
    operator: OperatorFlag = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once."""
    seconds = None if expires is None else parse_duration(expires)

    async def act(desk: Desk) -> str:
        expires_at = None if seconds is None else desk.clock.now_ms() + seconds * 1000
        grant = Grant(role, operator)
        _, secret = await desk.tokens.make(
            organization, grant, name=name, maker=None, expires_at=expires_at
        )
        return secret

    secret = _run(data_dir, act)
    print(json.dumps({"token": secret}) if as_json else secret)


@tokens.command("list")
def list_tokens(
    organization: Annotated[str | None, typer.Option(help="Only of this organization.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List tokens, newest first. The tokens themselves are not stored."""

    async def act(desk: Desk) -> tuple[list[Token], dict[str, int]]:
        found = await repo.tokens(desk.db, organization, before=None, limit=None)
        return found, await uses_repo.last_uses(desk.db, [token.id for token in found])

    found, uses = _run(data_dir, act)
    rows = [
        {"organization": token.organization, **show_token(token, uses.get(token.id))}
        for token in found
    ]
    show_rows(rows, as_json=as_json)


@tokens.command("revoke")
def revoke_token(token_id: str, data_dir: DataDir = None) -> None:
    """Revoke a token, and those it made."""
    _run(data_dir, lambda desk: desk.tokens.revoke(token_id, organization=None, actor=None))
    print(f"{token_id} is revoked.")


@users.command("create")
def create_user(
    username: str,
    organization: InOrganization,
    role: WithRole,
    operator: OperatorFlag = False,
    existing: Annotated[
        bool, typer.Option("--existing", help="Operator although the account is there already.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let a person in and print a sign-in link. Again for a member: gives them this role and a new
    link, for instance because the password is lost. An account that is no member yet is invited,
    and becomes one when its owner accepts."""

    async def act(desk: Desk) -> tuple[Welcomed, str]:
        welcomed = await desk.members.welcome(
            username, organization, role, operator=operator, existing=existing
        )
        return welcomed, desk.address(welcomed.link)

    welcomed, link = _run(data_dir, act)
    if as_json:
        invited = welcomed.account is not None
        print(json.dumps({"username": username, "signInLink": link, "invited": invited}))
        return
    if welcomed.account is None:
        print(f"{username} is {role} in {organization}. This link works once, within a day:")
    else:
        print(_invited(welcomed.account, organization))
    print(link)
    if link.startswith("/"):
        print("Put your server's address before it; with SAFELIGHT_PUBLIC_URL it stands there.")


@users.command("list")
def list_users(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List everybody who has, or had, an account."""

    async def act(desk: Desk) -> list[User]:
        return await repo.users(desk.db)

    found = _run(data_dir, act)
    show_rows([_show_user(user, as_json=as_json) for user in found], as_json=as_json)


@users.command("revoke")
def revoke_user(username: str, data_dir: DataDir = None) -> None:
    """Take a person's access away: sessions, links, memberships, password and tokens."""
    _run(data_dir, lambda desk: desk.members.revoke_user(username))
    print(f"{username} is revoked.")


@organizations.command("create")
def create_organization(organization: str, data_dir: DataDir = None) -> None:
    """Make an organization. It has no members yet; `users create` lets some in."""
    try:
        check_organization_id(organization)
    except InvalidOrganizationId as error:
        raise typer.BadParameter(str(error)) from None
    _run(data_dir, lambda desk: desk.members.make_organization(organization))
    print(f"{organization} is there.")


@organizations.command("list")
def list_organizations(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List organizations."""

    async def act(desk: Desk) -> list[tuple[str, int]]:
        return await repo.organizations(desk.db)

    found = _run(data_dir, act)
    show_rows([{"id": name, "createdAt": iso(at)} for name, at in found], as_json=as_json)


@organizations.command("revoke")
def close_organization(organization: str, data_dir: DataDir = None) -> None:
    """Close an organization: every membership and token ends, everything stored stays. `users
    create` opens it again."""
    _run(data_dir, lambda desk: desk.members.close_organization(organization))
    print(f"{organization} is closed.")


def parse_duration(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter("write a number and m, h, d or w, such as 30d")
    return int(match[1]) * _UNITS[match[2]]


def _invited(account: User, organization: str) -> str:
    amount = len(account.roles)
    where = {0: "no organization", 1: "one organization"}.get(amount, f"{amount} organizations")
    return (
        f"{account.username} has an account already, since {day(account.created_at)}, in {where}. "
        f"It is invited to {organization}: whoever owns it has to sign in as {account.username} "
        "and accept. If that is not the person you mean, choose another username. This link works "
        "once, within a day:"
    )


def _show_user(user: User, *, as_json: bool) -> dict[str, Any]:
    roles = ", ".join(f"{name} ({role})" for name, role in user.roles.items())
    return {
        "username": user.username,
        "organizations": user.roles if as_json else roles or None,
        "operator": user.operator,
        "hasPassword": user.password_hash is not None,
        "createdAt": iso(user.created_at),
        "revokedAt": None if user.revoked_at is None else iso(user.revoked_at),
    }


def _running_server(settings: Settings) -> str | None:
    """Where the server of this data directory is; of an external database there may be several."""
    if settings.database_url is not None:
        return None
    try:
        return DataDirectory(settings.data_dir.resolve()).server.read_text().strip()
    except FileNotFoundError:
        return None


def _run(data_dir: Path | None, act: Callable[[Desk], Awaitable[T]]) -> T:
    async def at_desk(local: Local) -> T:
        tokens, members = Tokens(local.units, local.ids), Members(local.units, local.ids)
        return await act(Desk(local.settings, local.db, local.clock, tokens, members))

    return run_local(data_dir, at_desk)
