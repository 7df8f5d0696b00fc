"""Signed as Amazon signs: its published examples, and its own library for anything else."""

import calendar

from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # it has no stubs
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # likewise
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # likewise
from hypothesis import given
from hypothesis import strategies as st

from safelight.objects.aws_signature import AwsKeys, signed

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = calendar.timegm((2015, 8, 30, 12, 36, 0)) * 1000
FORM = "application/x-www-form-urlencoded"
# The session of the suite's post-sts examples.
SESSION = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSP"
    "feoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7W"
    "Z0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8F"
    "DrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)


def signature(headers: dict[str, str], body: bytes = b"", session: str | None = None) -> str:
    found = signed(
        {"Host": "example.amazonaws.com", **headers}, body, service="service", region="us-east-1",
        keys=AwsKeys("AKIDEXAMPLE", SECRET, session), now_ms=NOW + 999,
    )  # fmt: skip
    return found["authorization"].rpartition("Signature=")[2]


def test_amazons_published_examples() -> None:
    """Those of its suite that are a POST to the root."""
    assert signature({}) == "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    assert signature({"My-Header1": " value1 "}) == (
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"
    )
    assert signature({"Content-Type": FORM}, b"Param1=value1") == (
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
    )


def test_all_that_is_sent_is_signed_and_nothing_is_secret() -> None:
    keys = AwsKeys("AKIDEXAMPLE", SECRET, SESSION)
    sent = signed({"Host": "a.example"}, b"", service="sqs", region="r", keys=keys, now_ms=NOW)
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token," in sent["authorization"]
    assert sent["x-amz-security-token"] == SESSION
    assert SECRET not in f"{sent}{keys!r}"
    assert SESSION not in repr(keys)


@given(
    st.dictionaries(
        st.from_regex(r"x-[a-z]{1,9}", fullmatch=True),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
        max_size=4,
    ),
    st.binary(max_size=100),
    st.none() | st.just(SESSION),
)
def test_as_amazons_library_signs(
    headers: dict[str, str], body: bytes, session: str | None
) -> None:
    mine = signed(
        {"host": "sqs.example:4566", **headers}, body, service="sqs", region="eu-central-1",
        keys=AwsKeys("key", SECRET, session), now_ms=NOW,
    )  # fmt: skip
    authorization = mine.pop("authorization")
    request = AWSRequest("POST", "http://sqs.example:4566/", mine, body)
    request.context["timestamp"] = mine["x-amz-date"]
    auth = SigV4Auth(Credentials("key", SECRET), "sqs", "eu-central-1")
    theirs = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    assert authorization.endswith(f"Signature={theirs}")
