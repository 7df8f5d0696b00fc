"""The rules of access, as tables."""

import itertools

import pytest

from safelight.accounts.access import (
    Caller,
    Grant,
    Role,
    authorize,
    authorize_grant,
    authorize_operator,
    token_grant,
)
from safelight.errors import Forbidden, NotFound, Unauthenticated

ROLES = [Role.VIEWER, Role.MEMBER, Role.APPROVER, Role.ADMIN]


def user(role: Role, *, operator: bool = False) -> Caller:
    return Caller("user", "usr_1", "ada", {"acme": role}, operator)


def test_roles_are_ordered_by_what_they_may_do_not_by_the_alphabet() -> None:
    assert sorted(Role) == ROLES
    assert max(Role) is Role.ADMIN
    for (low, one), (high, other) in itertools.combinations(enumerate(ROLES), 2):
        assert low < high
        assert one < other
        assert one <= other
        assert other > one
        assert other >= one
        assert not other <= one
        assert not one >= other


@pytest.mark.parametrize("held", ROLES)
@pytest.mark.parametrize("needed", ROLES)
def test_a_role_allows_itself_and_all_below(held: Role, needed: Role) -> None:
    caller = user(held)
    if ROLES.index(held) >= ROLES.index(needed):
        assert authorize(caller, "acme", needed) is caller
    else:
        with pytest.raises(Forbidden, match=f"needs the role {needed}"):
            authorize(caller, "acme", needed)


@pytest.mark.parametrize("needed", ROLES)
@pytest.mark.parametrize("operator", [False, True])
def test_elsewhere_is_not_found_even_for_operators(needed: Role, operator: bool) -> None:
    for organization in ("globex", "", "ACME", "acme\x00"):
        with pytest.raises(NotFound):
            authorize(user(Role.ADMIN, operator=operator), organization, needed)


def test_nobody_is_unauthenticated_everywhere() -> None:
    with pytest.raises(Unauthenticated):
        authorize(None, "acme", Role.VIEWER)
    with pytest.raises(Unauthenticated):
        authorize_operator(None)
    with pytest.raises(Unauthenticated):
        authorize_grant(None, "acme", Grant(Role.VIEWER))


def test_the_operator_flag_stands_beside_the_role() -> None:
    authorize_operator(user(Role.VIEWER, operator=True))
    with pytest.raises(Forbidden):
        authorize_operator(user(Role.ADMIN))
    with pytest.raises(Forbidden):
        authorize(user(Role.VIEWER, operator=True), "acme", Role.MEMBER)


@pytest.mark.parametrize("asked", ROLES)
def test_only_admins_make_tokens(asked: Role) -> None:
    authorize_grant(user(Role.ADMIN), "acme", Grant(asked))
    for role in ROLES[:-1]:
        with pytest.raises(Forbidden):
            authorize_grant(user(role), "acme", Grant(asked))
    with pytest.raises(NotFound):
        authorize_grant(user(Role.ADMIN), "globex", Grant(asked))


def test_only_operators_make_operators_tokens() -> None:
    asked = Grant(Role.ADMIN, operator=True)
    authorize_grant(user(Role.ADMIN, operator=True), "acme", asked)
    with pytest.raises(Forbidden, match="more than you hold"):
        authorize_grant(user(Role.ADMIN), "acme", asked)


@pytest.mark.parametrize("token", [Grant(r, o) for r in ROLES for o in (False, True)])
@pytest.mark.parametrize("maker", [Grant(r, o) for r in ROLES for o in (False, True)])
def test_a_token_never_grants_more_than_its_maker_holds(token: Grant, maker: Grant) -> None:
    granted = token_grant(token, has_maker=True, maker=maker)
    assert granted is not None
    assert granted.within(maker)
    assert granted.within(token)
    if token.within(maker):
        assert granted == token


def test_a_token_ends_with_its_makers_membership() -> None:
    assert token_grant(Grant(Role.VIEWER), has_maker=True, maker=None) is None
    assert token_grant(Grant(Role.ADMIN), has_maker=False, maker=None) == Grant(Role.ADMIN)


def test_history_names_the_caller() -> None:
    assert user(Role.VIEWER).as_actor() == {"type": "user", "name": "ada"}
