"""Tables for people, JSON for scripts."""

import json
import sys
from collections.abc import Sequence
from typing import Any


def show_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """A table in a terminal; tab-separated lines into a pipe; JSON when asked."""
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
    elif sys.stdout.isatty():
        _show_table(rows)
    else:
        for line in ([list(rows[0])] if rows else []) + [list(row.values()) for row in rows]:
            print("\t".join(_text(value) for value in line))


def _show_table(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        print("None yet.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row.values()))
    Console().print(table)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
