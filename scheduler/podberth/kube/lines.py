"""Cut a watch's byte stream into lines, whatever the chunks.

A watch is one JSON document a line (client-go frames it with a JSON decoder; the server writes a newline after each).
Only whole lines come out, so an event that the network cut in two is never seen half. `listwatch` reads them.
"""

from __future__ import annotations


class LineSplitter:
    """Collect chunks, hand out whole lines; linear in the bytes also for lines of many megabytes."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their newline and without empty ones."""
        end = chunk.find(b"\n")
        if end < 0:
            if chunk:
                self._parts.append(chunk)  # joined once, when the newline comes: no quadratic copying
            return []
        lines = chunk.split(b"\n")
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if rest := lines.pop():
            self._parts.append(rest)
        return [line for line in lines if line and not line.isspace()]

    @property
    def cut(self) -> bool:
        """True while an unfinished line is held back."""
        return bool(self._parts)

    def clear(self) -> None:
        """Drop what is held back: the stream it belonged to is gone."""
        self._parts.clear()
