"""No secret of an address reaches a log line, however it was written."""

from urllib.parse import quote

import pytest

from safelight.http.redact import redact

SECRET = "S3cr3t"


@pytest.mark.parametrize(
    "address",
    [
        f"code={SECRET}",
        f"a=1&token={SECRET}&b=2",
        f"%63ode={SECRET}",
        f"%2563ode={SECRET}",
        f"CODE={SECRET}",
        f"code={SECRET}&code={SECRET}",
        f"code=&code={SECRET}",
        f"code=x%26{SECRET}",
        f"code=x+{SECRET}",
        f"code={SECRET};a=1",
        f"a=1;code={SECRET}",
        f"next=/login?code={SECRET}",
        "next=" + quote(f"/login?code={SECRET}", safe=""),
        "next=" + quote("/login?next=" + quote(f"/x?a=1&token={SECRET}", safe=""), safe=""),
        f"next=%2Flogin%23code%3D{SECRET}",
        f"next=code={SECRET}",
        f"access_token={SECRET}",
        f"X-Amz-Security-Token={SECRET}",
        f"user[password]={SECRET}",
        f"code%20={SECRET}",
        f"+code={SECRET}",
        f"/login?code={SECRET}",
        "a=" + quote(quote(quote(quote(quote(quote(quote(f"&code={SECRET}"))))))),
    ],
)
def test_secrets_are_cut(address: str) -> None:
    shown = redact(address)
    assert SECRET not in shown
    assert "…" in shown


@pytest.mark.parametrize(
    "address",
    [
        "",
        "q=postcode+lookup&limit=5",
        "after=17&types=*",
        "name=a%26b%3Dc.jpg",
        "barcode=7",
        "x=%zz",
    ],
)
def test_the_rest_stays_as_it_came(address: str) -> None:
    assert redact(address) == address


def test_what_is_beside_a_secret_stays() -> None:
    assert redact(f"generation_id=g1&token={SECRET}&task=t1") == "generation_id=g1&token=…&task=t1"
