"""Trees of pod groups from a seed: groups of groups with constraints, their pod groups beside others, in any order."""

from __future__ import annotations

import json
from typing import Any

from tests.differential.generate.dice import HOST, Object
from tests.differential.generate.groups import PROFILES, RACK, Case, Step, node, put


class CompositeCase(Case):
    """One case with a tree of two to four levels, now and then two."""

    def __init__(self, seed: int, number: int, family: str = "composite") -> None:
        super().__init__(family, seed, number)
        self._roots: list[Object] = []
        self._composites: dict[str, Object] = {}

    def _first(self) -> Step:
        dice = self.dice
        nodes = [put(node(dice, i)) for i in range(self.nodes)]
        objects = self._tree("t", ("g", "h", "k")[: dice.randint(1, 3)])
        if dice.maybe(0.25):
            objects += self._tree("w", ("l", "m")[: dice.randint(1, 2)])
        if dice.maybe(0.2):
            objects += self._group("x")
        for _ in range(dice.one(0, 0, 1, 2)):
            objects.append(put(self._pod(None)))
        if dice.maybe(0.3):
            dice.shuffle(objects)
        return [*objects, *nodes] if dice.maybe(0.3) else [*nodes, *self._running(), *objects]

    def _tree(self, root: str, leaves: tuple[str, ...]) -> Step:
        """A root, now and then groups between it and its pod groups."""
        dice = self.dice
        priority = dice.one(0, 0, 0, 5)
        parents = [root]
        parents += [f"{root}{i}" for i in range(dice.one(0, 0, 1, 2))]
        found: Step = []
        for i, name in enumerate(parents):
            above = None if not i else dice.one(*parents[:i]) if dice.maybe(0.5) else root
            found.append(put(self._composite(name, above, priority)))
        for name in leaves:
            some = self._group(name)
            group = self.groups[name]
            group["spec"]["parentCompositePodGroupName"] = dice.one(*parents)
            group["spec"]["workloadRef"] = {"workloadName": "job", "templateName": "t"}
            for change in some:
                document: Any = change["put"]
                document["spec"]["priority"] = priority + (document["kind"] == "Pod" and dice.maybe(0.01))
                if document["kind"] == "Pod":
                    document["spec"]["schedulerName"] = PROFILES[0]  # which disagreement is named is left to chance
            found += some
        return found

    def _composite(self, name: str, parent: str | None, priority: int) -> Object:
        dice = self.dice
        gang = {"minGroupCount": dice.one(1, 1, 2, 2, 3)}
        spec: Object = {
            "workloadRef": {"workloadName": "job", "templateName": "t"},
            "schedulingPolicy": {"gang": gang} if dice.maybe(0.8) else {"basic": {}},
            "disruptionMode": {"single": {}},
            "priority": priority,
        }
        if parent is not None:
            spec["parentCompositePodGroupName"] = parent
        if dice.maybe(0.5):
            spec["schedulingConstraints"] = {"topology": [{"key": dice.one(RACK, RACK, HOST, "disk", "missing")}]}
        made = {
            "apiVersion": "scheduling.k8s.io/v1alpha3",
            "kind": "CompositePodGroup",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "generation": 1,
                "creationTimestamp": f"2026-01-01T00:00:{dice.randrange(3):02}Z",
            },
            "spec": spec,
        }
        self._composites[name] = made
        return made

    def _later(self) -> Step:
        """Something happens, but no pod goes: Berth waits for another one then (docs/equal.md)."""
        dice = self.dice
        if dice.maybe(0.2):
            changed: Any = json.loads(json.dumps(self._composites[dice.one(*self._composites)]))
            gang = changed["spec"]["schedulingPolicy"].get("gang")
            if gang is not None:
                # Never lower: kube-scheduler does not look at a tree again that has too few groups.
                gang["minGroupCount"] = dice.randint(gang["minGroupCount"], 3)
                changed["metadata"]["generation"] += 1
                self._composites[changed["metadata"]["name"]] = changed
                return [put(changed)]
        step = [change for change in super()._later() if "put" in change]
        for change in step:
            if "schedulingGroup" in change["put"].get("spec", {}):
                change["put"]["spec"]["schedulerName"] = PROFILES[0]
        return step
