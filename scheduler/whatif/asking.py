"""Asks plugins what they say of the nodes that they rejected: the numbers behind it, and what would help.

A plugin that fails at it fails nothing: its reason's own text stands, and one note says so.
"""

from collections.abc import Sequence
from typing import Any

from scheduler.framework.changes import Fix
from scheduler.framework.explaining import Detail, Inquiry
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError, Reason


class Asking:
    """One inquiry, and the plugins of one profile."""

    def __init__(self, inquiry: Inquiry, framework: Framework) -> None:
        self.inquiry = inquiry
        self.framework = framework
        self.notes: dict[tuple[str, str], str] = {}
        """(plugin, what it was asked) → that it failed. It is not asked this again."""

    def detail(self, row: int, plugin: str, reason: Reason) -> Detail:
        """The numbers of one reason against one row."""
        text, numbers = self._ask(plugin, "explain", row, reason) or ("", {})
        return text or reason.text, numbers

    def fixes(self, row: int, plugin: str, reasons: Sequence[Reason]) -> Sequence[Fix]:
        """What may help against all reasons of one plugin against one row."""
        fixes: Sequence[Fix] = self._ask(plugin, "fixes", row, reasons) or ()
        return fixes

    def _ask(self, name: str, method: str, row: int, about: Any) -> Any:
        plugin: Any = self.framework.plugin(name)
        if plugin is None or (name, method) in self.notes:
            return None
        try:
            return self.framework.guard(plugin, getattr(plugin, method), self.inquiry, row, about)
        except PluginError as error:
            could = "explain its rejections" if method == "explain" else "say what would help"
            self.notes[name, method] = f'plugin "{name}" could not {could}: {error.text}'
            return None
