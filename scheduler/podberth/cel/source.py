"""An expression's text, and how an issue with it is shown: position, message, the line, and a mark below it."""

from bisect import bisect_right
from dataclasses import dataclass

_MAX_SNIPPET = 16384
_MAX_ISSUES = 100


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that is wrong at a position (in code points; -1 is nowhere in particular)."""

    position: int
    message: str


class SyntaxIssueError(Exception):
    """The expression can't be parsed: the issues say why."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__(issues[0].message)
        self.issues = issues


class Source:
    """The text, cut into lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0] + [index + 1 for index, character in enumerate(text) if character == "\n"]

    def location(self, position: int) -> tuple[int, int]:
        """Line from 1 and column from 0; before every line when the position is nowhere."""
        if position < 0:
            return -1, -1
        line = bisect_right(self._starts, position)
        return line, position - self._starts[line - 1]

    def shown(self, issues: list[Issue]) -> str:
        """All issues in order of their positions, as the compiler shows them."""
        ordered = sorted(issues[:_MAX_ISSUES], key=lambda issue: self.location(issue.position))
        lines = [self._shown(issue) for issue in ordered]
        if len(issues) > _MAX_ISSUES:
            lines.append(f"{len(issues) - _MAX_ISSUES} more errors were truncated")
        return "\n".join(lines)

    def _shown(self, issue: Issue) -> str:
        line, column = self.location(issue.position)
        head = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
        if line < 1 or not self.text:
            return head
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        snippet = self.text[start:end]
        if len(snippet.encode()) > _MAX_SNIPPET:
            return head
        snippet = snippet.replace("\t", " ")
        marks = "".join("．" if character > "\x7f" else "." for character in snippet[:column])  # full-width dots
        mark = "＾" if column < len(snippet) and snippet[column] > "\x7f" else "^"
        return f"{head}\n | {snippet}\n | {marks}{mark}"
