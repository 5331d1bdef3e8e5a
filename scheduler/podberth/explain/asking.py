"""Asks plugins' explainers about the nodes that the plugins rejected: the numbers behind it, and what would help.

One that fails at it fails nothing: its reason's own text stands, and one note says so.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import msgspec

from podberth.explain.nominated import kept_rows, placed
from podberth.explain.plugins import explainer_of
from podberth.framework.changes import Change, Fix
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.foreign import Foreign, checked
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError, Reason, shown
from podberth.model.pod import Pod


class Asking:
    """One inquiry, and the plugins of one profile."""

    def __init__(self, inquiry: Inquiry, framework: Framework) -> None:
        self.inquiry = inquiry
        self.framework = framework
        self.notes: dict[tuple[str, str], str] = {}
        """(plugin, what it was asked, or what is missing) → that it failed. It is not asked this again."""
        self._of_kept: dict[int, Inquiry] = {}
        self._explainers: dict[str, Explainer] = {}

    @cached_property
    def kept(self) -> dict[int, list[Pod]]:
        """Row → the pods that the node is kept for; of it, plugins are asked as if they were there."""
        return kept_rows(self.inquiry.pod, self.inquiry.cluster)

    def detail(self, row: int, name: str, reason: Reason) -> Detail:
        """The numbers of a plugin's reason against one row."""
        with self._about(row) as inquiry:
            text, numbers = self._ask(name, "explain", inquiry, row, reason) or ("", {})
        return text or reason.text, numbers

    def fixes(self, row: int, name: str, reasons: Sequence[Reason]) -> Sequence[Fix]:
        """Return what may help against all reasons of a plugin against one row."""
        with self._about(row) as inquiry:
            return self._ask(name, "fixes", inquiry, row, reasons) or ()

    def detail_of_pod(self, name: str, reason: Reason) -> Detail:
        """The numbers of a plugin's reason against a pod that it rejected before any node was looked at."""
        text, numbers = self._ask(name, "explain_pod", self.inquiry, reason) or ("", {})
        return text or reason.text, numbers

    def fixes_of_pod(self, name: str, reason: Reason) -> Sequence[Fix]:
        """Return what may help such a pod."""
        return self._ask(name, "fixes_of_pod", self.inquiry, reason) or ()

    def failed(self, what: str, error: PluginError) -> None:
        """A plugin failed while something was tried. `what`: what is missing from the answer; one note says so."""
        self.notes.setdefault((error.plugin, what), f"{what}: {error}")

    @contextmanager
    def _about(self, row: int) -> Iterator[Inquiry]:
        """Yield what is asked about one row."""
        pods = self.kept.get(row)
        if pods is None:
            yield self.inquiry
            return
        with placed(pods, row, self.inquiry.cluster):
            yield self._of_kept.setdefault(row, Inquiry(self.inquiry.pod, self.inquiry.cluster))

    def _ask(self, name: str, what: str, *about: object) -> Any:
        """The answer of a plugin's explainer; None if there is none."""
        plugin: Any = self.framework.plugin(name)
        if plugin is None or (name, what) in self.notes:
            return None
        try:
            ask = getattr(self._explainer(plugin), what)
            if isinstance(plugin, Foreign):
                ask = checked(what, ask, _detail if what.startswith("explain") else _fixes)
            return self.framework.guard(plugin, ask, *about)
        except PluginError as error:
            could = "explain its rejections" if what.startswith("explain") else "say what would help"
            self.notes[name, what] = f'plugin "{name}" could not {could}: {error.text}'
            return None

    def _explainer(self, plugin: Any) -> Explainer:
        found = self._explainers.get(plugin.name)
        if found is None:
            own = plugin.own if isinstance(plugin, Foreign) else plugin
            found = self._explainers[plugin.name] = self.framework.guard(plugin, explainer_of(type(own)), own)
        return found


def _detail(answer: Any, args: tuple[Any, ...]) -> str:
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str)):
        return f"want (text, data), got {shown(answer)}"
    msgspec.convert(msgspec.json.decode(msgspec.json.encode(answer[1])), dict[str, Any])
    return ""


def _fixes(answer: Any, args: tuple[Any, ...]) -> str:
    msgspec.convert(msgspec.to_builtins(answer), Sequence[Fix])
    strange = [change for fix in answer for change in fix if not isinstance(change, Change)]
    return f"want changes, got {shown(strange[0])}" if strange else ""
