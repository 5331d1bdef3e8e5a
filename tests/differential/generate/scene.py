"""A cluster in the making, and the pod that comes: what families of cases add to."""

from __future__ import annotations

from typing import Any

from tests.differential.generate import nodes as node_maker
from tests.differential.generate import pods
from tests.differential.generate.dice import Dice, Object

Case = dict[str, object]


class Scene:
    """A cluster in the making, and the pod that comes."""

    def __init__(self, dice: Dice, least: int = 2, most: int = 8, **how: Any) -> None:
        self.dice = dice
        if dice.maybe(0.5):  # whatever else a case is about, room is not what decides it
            how = {"room": "ample", "taints": 0.05} | how
        self.nodes = node_maker.nodes(dice, least, most, **how)
        self.objects = [*node_maker.namespaces(dice), *self.nodes]
        self.pod: Object = {}
        self.config = ""
        self.nominees = ""
        self.pending: list[Object] = []

    def place(self, least: int, most: int, *, rich: bool = False, heavy: bool = False) -> list[Object]:
        """Pods on random nodes, or on one that is gone."""
        dice, made = self.dice, []
        count = dice.randint(least, most)
        for number in range(count):
            where = "node-99" if dice.maybe(0.01) else dice.one(*self.nodes)["metadata"]["name"]
            made.append(pods.pod(dice, f"e{number}", where, rich=rich, heavy=heavy))
            if count > 12:  # upstream sorts victims, and more than twelve not stably: none may be equal
                made[-1]["status"]["startTime"] = f"2026-01-01T00:{dice.randint(0, 9):02}:{number:02}Z"
        self.objects += made
        return made

    def comes(self, *, rich: bool = False, heavy: bool = False) -> Object:
        """The incoming pod."""
        self.pod = pods.pod(self.dice, "p", rich=rich, heavy=heavy)
        if self.dice.maybe(0.2):
            self.pod["spec"]["tolerations"] = node_maker.tolerations(self.dice)
        return self.pod

    def case(self, name: str) -> Case:
        """The case, in the format of the vectors; its objects in any order."""
        self.dice.shuffle(self.objects)
        made: Case = {"id": name}
        if self.config:
            made["config"] = self.config
        if self.nominees:
            made["nominees"] = self.nominees
        if self.pending:
            made["pending"] = self.pending
        return made | {"objects": self.objects, "pod": self.pod}
