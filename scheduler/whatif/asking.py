"""Asks plugins what they say of the nodes that they rejected: the numbers behind it, and what would help.

A plugin that fails at it fails nothing: its reason's own text stands, and one note says so.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from scheduler.framework.changes import Fix
from scheduler.framework.explaining import Detail, Inquiry
from scheduler.framework.plugin import Plugin
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError, Reason
from scheduler.model.pod import Pod
from scheduler.whatif.nominated import kept_rows, placed

Found = TypeVar("Found")


class Asking:
    """One inquiry, and the plugins of one profile."""

    def __init__(self, inquiry: Inquiry, framework: Framework) -> None:
        self.inquiry = inquiry
        self.framework = framework
        self.notes: dict[tuple[str, str], str] = {}
        """(plugin, what it was asked, or what is missing) → that it failed. It is not asked this again."""
        self._of_kept: dict[int, Inquiry] = {}

    @cached_property
    def kept(self) -> dict[int, list[Pod]]:
        """Row → the pods that the node is kept for; of it, plugins are asked as if they were there."""
        return kept_rows(self.inquiry.pod, self.inquiry.cluster)

    def detail(self, row: int, name: str, reason: Reason) -> Detail:
        """The numbers of a plugin's reason against one row."""
        plugin = self.framework.plugin(name)
        with self._about(row) as inquiry:
            text, numbers = (plugin and self._ask(plugin, plugin.explain, inquiry, row, reason)) or ("", {})
        return text or reason.text, numbers

    def fixes(self, row: int, name: str, reasons: Sequence[Reason]) -> Sequence[Fix]:
        """What may help against all reasons of a plugin against one row."""
        plugin = self.framework.plugin(name)
        with self._about(row) as inquiry:
            return (plugin and self._ask(plugin, plugin.fixes, inquiry, row, reasons)) or ()

    def detail_of_pod(self, name: str, reason: Reason) -> Detail:
        """The numbers of a plugin's reason against a pod that it rejected before any node was looked at."""
        plugin = self.framework.plugin(name)
        text, numbers = (plugin and self._ask(plugin, plugin.explain_pod, self.inquiry, reason)) or ("", {})
        return text or reason.text, numbers

    def fixes_of_pod(self, name: str, reason: Reason) -> Sequence[Fix]:
        """What may help such a pod."""
        plugin = self.framework.plugin(name)
        return (plugin and self._ask(plugin, plugin.fixes_of_pod, self.inquiry, reason)) or ()

    def failed(self, what: str, error: PluginError) -> None:
        """A plugin failed while something was tried. `what`: what is missing from the answer; one note says so."""
        self.notes.setdefault((error.plugin, what), f"{what}: {error}")

    @contextmanager
    def _about(self, row: int) -> Iterator[Inquiry]:
        """What is asked about one row."""
        pods = self.kept.get(row)
        if pods is None:
            yield self.inquiry
            return
        with placed(pods, row, self.inquiry.cluster):
            yield self._of_kept.setdefault(row, Inquiry(self.inquiry.pod, self.inquiry.cluster))

    def _ask(self, plugin: Plugin, point: Callable[..., Found], *about: object) -> Found | None:
        asked = plugin.name, point.__name__
        if asked in self.notes:
            return None
        try:
            found: Found = self.framework.guard(plugin, point, *about)
        except PluginError as error:
            could = "explain its rejections" if asked[1].startswith("explain") else "say what would help"
            self.notes[asked] = f'plugin "{plugin.name}" could not {could}: {error.text}'
            return None
        return found
