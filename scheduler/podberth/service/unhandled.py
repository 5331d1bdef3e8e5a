"""What goes wrong on an event loop where nobody waits for it: a line of the log, where asyncio prints a traceback."""

import asyncio
from typing import Any

import structlog

MOST_TEXT = 300
"""Characters of what is said of a task, a callback or a connection."""

log = structlog.get_logger("loop")


def tell_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For `loop.set_exception_handler`. `context`: as asyncio and uvloop make it, a message and mostly an exception.

    Only a connection that was cut in the moment in which uvloop wrote to it has no traceback: its requests are told so
    in the ordinary way.
    """
    error, where = context.get("exception"), context.get("message")
    if "protocol" in context and isinstance(error, RuntimeError) and "the handler is closed" in str(error):
        log.warning("a connection was cut while it was written to", where=where, reason=str(error))
    else:
        about = {key: str(value)[:MOST_TEXT] for key, value in context.items() if key not in ("message", "exception")}
        log.error("an error that nobody waited for, this is a bug of Berth", where=where, about=about, exc_info=error)
