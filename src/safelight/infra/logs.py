"""Structured logs: one line per unit of work, pretty in a terminal and JSON elsewhere.

Nothing secret reaches a line: `redact_query` cuts tokens from addresses, and the last processor
replaces anything that looks like one of our tokens wherever it turns up.
"""

import logging
import re
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRET_PARAMETERS = re.compile(r"((?:^|[?&])(?:token|code)=)[^&]*", re.IGNORECASE)
_TOKEN = re.compile(r"slt_[A-Za-z0-9_\-]{8,}")


def configure(log_format: str, level: str) -> None:
    pretty = sys.stderr.isatty() if log_format == "auto" else log_format == "console"
    renderer: Any = (
        # Without the locals of each frame: they may be an image's bytes.
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if pretty
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    errors: list[Any] = [] if pretty else [structlog.processors.format_exc_info]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *errors,
            _hide_tokens,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def redact_query(text: str) -> str:
    return _SECRET_PARAMETERS.sub(r"\1…", text)


def _hide_tokens(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str) and "slt_" in value:
            event[key] = _TOKEN.sub("slt_…", value)
    return event
