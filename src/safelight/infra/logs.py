"""Structured logs: one line per unit of work, pretty in a terminal and JSON elsewhere.

Nothing secret reaches a line: the frame of a request cuts tokens from addresses, and the last
processor replaces anything that looks like one of our tokens wherever it turns up.
"""

import json
import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from safelight.infra.injected import hide_tokens

_encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode


def as_json(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    """As structlog's own, with an encoder that is made once and not for each line."""
    return _encode(event)


def configure(log_format: str, level: str) -> None:
    pretty = sys.stderr.isatty() if log_format == "auto" else log_format == "console"
    renderer: Any = (
        # Without the locals of each frame: they may be an image's bytes.
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if pretty
        else as_json
    )
    errors: list[Any] = [] if pretty else [structlog.processors.format_exc_info]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *errors,
            hide_tokens,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
