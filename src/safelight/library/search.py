"""Words of names and labels: what the library can be searched by."""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 32


def words(*texts: str | None) -> list[str]:
    """Lower case, without accents, each once; `IMG_0042.jpg` has the words img, 0042 and jpg."""
    found: dict[str, None] = {}
    for text in filter(None, texts):
        plain = unicodedata.normalize("NFKD", text.casefold())
        kept = "".join(char for char in plain if not unicodedata.combining(char))
        found.update(dict.fromkeys(_WORD.findall(kept)))
    return list(found)[:_MOST_WORDS]


def prefix_query(text: str) -> str | None:
    """Every word of the text as a prefix, in PostgreSQL's notation; None when it has no word."""
    quoted = [f"'{word}':*" for word in words(text)]  # a word holds no quote and no backslash
    return " & ".join(quoted) or None
