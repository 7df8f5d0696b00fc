"""Names of images, the object keys made of them (`{organizationId}/{name}`), and the words they are
found by.

Guarantees: `clean_name` gives a name that `check_name` takes, and leaves such a name as it is;
`split_key` takes back apart what `object_key` put together.
Known gap: which characters are assigned follows the interpreter's Unicode tables, so an older
Python drops characters that a newer one keeps. Keys in the store are not judged by that.
"""

import re
import unicodedata
from typing import Final
from urllib.parse import quote, unquote

from safelight.errors import RangeNotSatisfiable

NAME_BYTES: Final = 255
EXTENSION_BYTES: Final = 16
RESERVED_ORGANIZATION_IDS: Final = frozenset(
    {"artifacts", "thumbnails", "renditions", "submissions", "public", "system"}
)
# What may be kept with an object. Buckets forget the case of these names; this restores it.
METADATA_NAMES: Final = {
    name.lower(): name
    for name in ("organizationId", "name", "idempotencyKey", "imageId", "width", "height")
}

_ORGANIZATION_ID: Final = re.compile(r"[a-z0-9-]{1,64}")
_SLASHES: Final = re.compile(r"[/\\]")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_UNSTORABLE: Final = frozenset({"Cc", "Cs"})
_TRIMMED: Final = " ."
_WORTH_NORMALIZING: Final = 2048
_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 32
_LONGEST_WORD = 500


class InvalidName(ValueError):
    """The message tells a person what is wrong with the name."""


class InvalidOrganizationId(ValueError):
    """The message tells a person what is wrong with the id."""


class InvalidKey(ValueError):
    """The object key cannot be one of an upload."""


class ReservedKey(InvalidKey):
    """The object key lies under a prefix that Safelight keeps for itself."""


def clean_name(raw: str, extension: str) -> str:
    """`extension` is the canonical one of the content, for a name of which nothing is left."""
    last = _SLASHES.split(raw)[-1]
    spaced = " ".join(_without(last, _UNSEEN).split())
    # Dropping characters can bring together what composes, so NFC comes after it.
    name = unicodedata.normalize("NFC", _worth_normalizing(spaced)).strip(_TRIMMED)
    return _fitted(name) or f"image.{extension}"


def check_name(name: str) -> None:
    """Raises `InvalidName` exactly where cleaning would change the name."""
    if fault := _stored_fault(name) or _unclean_fault(name):
        raise InvalidName(fault)


def is_clean(name: str) -> bool:
    return not (_stored_fault(name) or _unclean_fault(name))


def check_stored_name(name: str) -> None:
    """What every object's name must be, also one that other tools gave it; need not be clean."""
    if fault := _stored_fault(name):
        raise InvalidName(fault)


def around_number(name: str, digits: int) -> tuple[str, str]:
    """What stands before and after a number of so many digits that tells a clean name from others
    of it, ` (n)` before its extension. With the number in between it is clean again."""
    stem, dotted = _split_extension(name)
    after = f"){dotted}"
    room = NAME_BYTES - len(" (") - digits - len(after.encode())
    return _cut(stem, room).rstrip(" ") + " (", after


def check_organization_id(organization_id: str) -> None:
    if not _ORGANIZATION_ID.fullmatch(organization_id):
        raise InvalidOrganizationId(
            "An organization id has 1 to 64 characters: lower-case letters a to z, digits, hyphens."
        )
    if organization_id in RESERVED_ORGANIZATION_IDS:
        raise InvalidOrganizationId(f"The organization id {organization_id} is reserved.")


def object_key(organization_id: str, name: str) -> str:
    check_organization_id(organization_id)
    check_stored_name(name)
    return f"{organization_id}/{name}"


def split_key(key: str) -> tuple[str, str]:
    """The organization id and the name."""
    organization_id, slash, name = key.partition("/")
    if not slash:
        raise InvalidKey("An object key has the form organizationId/name.")
    if organization_id in RESERVED_ORGANIZATION_IDS:
        raise ReservedKey(f"Keys that begin with {organization_id}/ are not uploads.")
    try:
        check_organization_id(organization_id)
        check_stored_name(name)
    except (InvalidOrganizationId, InvalidName) as fault:
        raise InvalidKey(f"The object key is malformed: {fault}") from fault
    return organization_id, name


def owner_of(key: str) -> tuple[str | None, str | None]:
    """The organization and name of an upload's key; nobody's under a reserved prefix."""
    try:
        return split_key(key)
    except ReservedKey:
        if any(part in {"", ".", ".."} for part in key.split("/")):
            raise InvalidKey("An object key cannot have empty or dotted parts.") from None
        return None, None


def within(size: int, start: int, stop: int | None) -> tuple[int, int]:
    """The part of a range that lies in the object; the whole of an empty object is no error."""
    end = size if stop is None else min(stop, size)
    if not 0 <= start < end and (start, end, size) != (0, 0, 0):
        raise RangeNotSatisfiable
    return start, end


def words(*texts: str | None) -> list[str]:
    """What an entry is found by, of its name and label: lower case, without accents, each once;
    `IMG_0042.jpg` has the words img, 0042 and jpg."""
    found: dict[str, None] = {}
    for text in filter(None, texts):
        kept = text.casefold()
        if not kept.isascii():
            plain = unicodedata.normalize("NFKD", kept)
            kept = "".join(char for char in plain if not unicodedata.combining(char))
        found.update(dict.fromkeys(_WORD.findall(kept)))
    return list(found)[:_MOST_WORDS]


def prefix_query(text: str) -> str | None:
    """Every word of the text as a prefix, in PostgreSQL's notation; None when it has no word."""
    # A word holds no quote and no backslash; beyond some two thousand bytes PostgreSQL takes none.
    quoted = [f"'{word[:_LONGEST_WORD]}':*" for word in words(text)]
    return " & ".join(quoted) or None


def to_metadata(name: str) -> str:
    """Object stores carry metadata as ASCII."""
    return quote(name, safe="")


def from_metadata(value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise InvalidName("The name in the metadata is not percent-encoded UTF-8.") from None


def _stored_fault(name: str) -> str | None:
    if not name:
        return "A name cannot be empty."
    return _character_fault(name) or _form_fault(name)


def _character_fault(name: str) -> str | None:
    if _SLASHES.search(name):
        return "A name cannot contain / or \\."
    if unstorable := _first_of(name, _UNSTORABLE):
        return f"A name cannot contain control characters ({unstorable})."
    if name.startswith("."):
        return "A name cannot begin with a dot."
    return None


def _form_fault(name: str) -> str | None:
    """The length first: NFC takes quadratic time on hostile input."""
    if (length := len(name.encode())) > NAME_BYTES:
        return f"A name can have {NAME_BYTES} bytes of UTF-8; this one has {length}."
    if not unicodedata.is_normalized("NFC", name):
        return "A name must be in the Unicode form NFC; normalize it first."
    return None


def _unclean_fault(name: str) -> str | None:
    if unseen := _first_of(name, _UNSEEN):
        return f"A name cannot contain invisible or unassigned characters ({unseen})."
    if name != name.strip(_TRIMMED):
        return "A name cannot begin or end with a space or a dot."
    if name != " ".join(name.split()):
        return "White space in a name must be single plain spaces."
    return None


def _first_of(name: str, categories: frozenset[str]) -> str | None:
    """The first character of those categories, as U+XXXX."""
    if _is_plain(name):
        return None
    found = (char for char in name if unicodedata.category(char) in categories)
    return next((f"U+{ord(char):04X}" for char in found), None)


def _without(text: str, categories: frozenset[str]) -> str:
    if _is_plain(text):
        return text
    return "".join(char for char in text if unicodedata.category(char) not in categories)


def _is_plain(text: str) -> bool:
    """As most names are: nothing in it is unseen or unstorable, or has to be looked up."""
    return text.isascii() and text.isprintable()


def _worth_normalizing(text: str) -> str:
    """Both ends of an absurdly long name, far more than is kept: NFC can take quadratic time."""
    if len(text) <= 2 * _WORTH_NORMALIZING:
        return text
    return text[:_WORTH_NORMALIZING] + text[-_WORTH_NORMALIZING:]


def _fitted(name: str) -> str:
    if len(name.encode()) <= NAME_BYTES:
        return name
    stem, dotted = _split_extension(name)
    # Without an extension the cut can leave a space or a dot at the end.
    return (_cut(stem, NAME_BYTES - len(dotted.encode())) + dotted).strip(_TRIMMED)


def _split_extension(name: str) -> tuple[str, str]:
    """The stem, and the extension with its dot or nothing; too long or spaced is no extension."""
    stem, dot, extension = name.rpartition(".")
    if not stem or not extension or " " in extension:
        return name, ""
    if len(extension.encode()) > EXTENSION_BYTES:
        return name, ""
    return stem, dot + extension


def _cut(text: str, size: int) -> str:
    """At most `size` bytes, not parting a letter from its marks unless that would leave nothing."""
    kept = text.encode()[:size].decode(errors="ignore")
    end = len(kept)
    while 0 < end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end -= 1
    return kept[:end] or kept
