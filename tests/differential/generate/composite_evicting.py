"""Trees of pod groups that preempt, and whose pods are preempted: one by one, by groups, or a whole tree at once."""

from __future__ import annotations

from typing import Any

from tests.differential.generate.composite import CompositeCase
from tests.differential.generate.evicting import WithVictims
from tests.differential.generate.groups import Step, node, put


class CompositeEvictingCase(CompositeCase, WithVictims):
    """One case with a tree that waits, or a group or pods, and mostly a tree whose pods run."""

    def __init__(self, seed: int, number: int) -> None:
        super().__init__(seed, number, "composite-evicting")

    def _first(self) -> Step:
        dice = self.dice
        found = [put(node(dice, i)) for i in range(self.nodes)]
        found += self._running_tree()
        for _ in range(dice.one(0, 1, 2, 4)):
            found.append(put(self._placed(None, dice.one(-10, -5, 0, 5))))
        found += [put(self._budget(i)) for i in range(dice.one(0, 0, 0, 1))]
        if dice.maybe(0.7):
            found += self._tree("t", ("g", "h", "k")[: dice.randint(1, 3)])
        if not self.groups or dice.maybe(0.2):
            found += self._group("x")
        for _ in range(dice.one(0, 0, 1, 2)):
            found.append(put(self._pod(None)))
        if not self._composites:
            self._composite("t", None, 0)  # not there, or made later
        return found

    def _running_tree(self) -> Step:
        """Groups whose pods run, most of them below a root, or below a group that is below it."""
        dice, found = self.dice, list[Any]()
        parents = ("r", "r0")[: dice.one(0, 1, 1, 2, 2)]
        priority = dice.one(-10, -5, 0)
        for i, name in enumerate(parents):
            made = self._composite(name, parents[0] if i else None, priority)
            made["spec"].pop("schedulingConstraints", None)
            made["spec"]["schedulingPolicy"] = {"basic": {}}
            made["spec"]["disruptionMode"] = {dice.one("all", "all", "single"): {}}
            if not i or dice.maybe(0.95):
                found.append(put(made))
        for name in ("v", "w", "y")[: dice.randint(1, 3)]:
            some = self._victims(name)
            spec = some[0]["put"]["spec"]
            if parents and some[0]["put"]["kind"] == "PodGroup" and dice.maybe(0.85):
                spec["parentCompositePodGroupName"] = dice.one(*parents)
                spec["schedulingPolicy"] = {"basic": {}}
                spec["workloadRef"] = {"workloadName": "job", "templateName": "t"}
            found += some
        self._composites.clear()  # what happens later happens to those that wait
        return found

    def _tree(self, root: str, leaves: tuple[str, ...]) -> Step:
        """Its pods agree on whether they preempt: which of several disagreements is named is left to chance."""
        found, never = super()._tree(root, leaves), self.dice.maybe(0.05)
        for spec in (change["put"]["spec"] for change in found if change["put"]["kind"] == "Pod"):
            spec["preemptionPolicy"] = "Never" if never else "PreemptLowerPriority"
        return found
