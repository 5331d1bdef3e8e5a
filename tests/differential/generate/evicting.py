"""Groups and pods that preempt groups: of both disruption modes, on several nodes, some of them protected or leaving.

As in family `preempting`, no placed pod repels others: kube-scheduler forgets such terms while it spares victims
(decision 26).
"""

from __future__ import annotations

from tests.differential.generate.dice import Object
from tests.differential.generate.groups import Case, Step, node, put


class WithVictims(Case):
    """A case in which groups run."""

    def _victims(self, name: str) -> Step:
        """A group whose pods run."""
        dice = self.dice
        spec: Object = {
            "schedulingPolicy": dice.one({"basic": {}}, {"gang": {"minCount": 1}}, {"gang": {"minCount": 2}}),
            "priority": dice.one(-10, -5, 0),
        }
        mode = dice.one("all", "all", "single", None)
        if mode is not None:
            spec["disruptionMode"] = {mode: {}}
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
        group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}
        pods = [put(self._placed(name, spec["priority"])) for _ in range(dice.randint(1, 4))]
        return [put(group), *pods] if dice.maybe(0.95) else pods  # nobody has made it, or it is gone

    def _placed(self, group: str | None, priority: int) -> Object:
        dice = self.dice
        pod = self._pod(group)
        spec = pod["spec"]
        spec["nodeName"] = f"n{dice.randrange(self.nodes)}"
        spec["priority"] = priority
        spec["schedulerName"] = "default-scheduler"
        spec.pop("schedulingGates", None)
        spec.pop("affinity", None)
        pod["metadata"]["labels"] = {"app": dice.one("old", "db")}
        pod["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{self._count:02}Z"}
        if dice.maybe(0.08):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
            pod["metadata"]["finalizers"] = ["example.com/held"]
        return pod

    def _budget(self, number: int) -> Object:
        dice = self.dice
        name = f"budget-{number}"
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"selector": {"matchLabels": {"app": dice.one("old", "db")}}},
            "status": {"disruptionsAllowed": dice.one(0, 0, 1, 2)},
        }


class EvictingCase(WithVictims):
    """One case in the making."""

    def __init__(self, seed: int, number: int, family: str = "evicting") -> None:
        super().__init__(family, seed, number)

    def _first(self) -> Step:
        dice = self.dice
        found = [put(node(dice, i)) for i in range(self.nodes)]
        for name in ("v", "w", "x")[: dice.one(0, 1, 1, 2, 3)]:
            found += self._victims(name)
        for _ in range(dice.one(0, 1, 2, 4)):
            found.append(put(self._placed(None, dice.one(-10, -5, 0, 5))))
        found += [put(self._budget(i)) for i in range(dice.one(0, 0, 1, 2))]
        for name in ("g", "h")[: dice.one(0, 1, 1, 2)]:
            found += self._group(name)
        for _ in range(dice.one(0, 1, 1, 3)):
            found.append(put(self._pod(None)))
        if not self.groups:
            found += self._group("g")
        return found


class ExtendedCase(EvictingCase):
    """As `EvictingCase`, with an extender that has a say in the nodes of all pods."""

    def __init__(self, seed: int, number: int) -> None:
        super().__init__(seed, number, "extended")

    def made(self) -> Object:
        """The case. What the extender says goes by the names of pods and nodes alone."""
        asked, dice = super().made(), self.dice
        names = [f"p{i}" for i in range(self._count)]
        nodes = [f"n{i}" for i in range(self.nodes)]
        likely = dice.one(0.0, 0.2, 0.5)
        refuses = {name: [node for node in nodes if dice.maybe(likely)] for name in names}
        hopeless = {name: [node for node in nodes if dice.maybe(likely / 4)] for name in names}
        ranks = {name: {node: dice.randint(0, 10) for node in nodes} for name in names}
        fails = [name for name in names if dice.maybe(0.3)] if dice.maybe(0.06) else []
        weight = dice.one(1, 3)
        return asked | {
            "extender": {"weight": weight, "refuses": refuses, "hopeless": hopeless, "ranks": ranks, "fails": fails}
        }
