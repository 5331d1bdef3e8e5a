"""Clusters that change: a case of a family turns into another one of it step by step, and is asked about after each.

What is kept from question to question has to be right after every change.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from tests.differential.generate.dice import Dice, Object
from tests.differential.generate.families import FAMILIES

STEPS = 6
_OTHER = 500
"""What the second case's number is above the first's."""
Key = tuple[str, str, str]


def key_of(document: Object) -> Key:
    """The kind, the namespace and the name of an object."""
    meta = document["metadata"]
    return document["kind"], meta.get("namespace", ""), meta["name"]


def states(family: str, seed: int, number: int) -> list[Object]:
    """The cluster after each step, as cases in the format of the vectors; the same for the same three."""
    name = f"{family}-{seed}-{number}"
    first, second = (_made(family, f"{family}-{seed}-{n}") for n in (number, number + _OTHER))
    second["pod"]["metadata"] |= {"name": "q", "uid": "uid-q"}
    dice = Dice(f"changing {name}")
    there = {key_of(one): one for one in first["objects"]}
    others = {key_of(one): one for one in second["objects"]}
    kept: Object = {field: first[field] for field in ("config", "nominees") if field in first}
    found: list[Object] = []
    for step in range(STEPS):
        if step:
            for _ in range(dice.one(1, 1, 1, 2, 4)):
                _change(dice, there, others, step)
        pod = dice.one(first["pod"], first["pod"], second["pod"])
        found.append(
            {"id": f"{name}.{step}", **kept, "objects": list(there.values()), "pod": pod},
        )
    return found


def _made(family: str, name: str) -> Object:
    found: Object = copy.deepcopy(FAMILIES[family](Dice(name)).case(name))
    found.pop("pending", None)
    return found


def _change(dice: Dice, there: dict[Key, Object], others: dict[Key, Object], step: int) -> None:
    """Take one object away, or put one of the other case in."""
    if dice.maybe(0.35):
        nodes = [key for key in there if key[0] == "Node"]
        del there[dice.one(*(nodes[1:] if dice.maybe(0.2) and len(nodes) > 1 else list(there)))]
        return
    wanted = dice.one("Node", "Pod", "")
    some = [key for key in others if not wanted or key[0] == wanted] or list(others)
    key = dice.one(*some)
    new = copy.deepcopy(others[key])
    if _place(there.get(key)) != _place(new):
        new["metadata"]["uid"] = f"{new['metadata'].get('uid', key[2])}-{step}"  # another pod of that name
    there[key] = new


def _place(document: Object | None) -> str:
    return "" if document is None else document.get("spec", {}).get("nodeName", "")


def steps(answered: list[Object]) -> Iterator[Object]:
    """What each state changes in the one before: {"gone", "put", "pod", "want"}."""
    before: dict[Key, Object] = {}
    for one in answered:
        objects: list[Object] = one["objects"]
        now = {key_of(each): each for each in objects}
        gone = [
            [*key, each["metadata"].get("uid", "")]
            for key, each in before.items()
            if key not in now or now[key]["metadata"].get("uid") != each["metadata"].get("uid")
        ]
        put = [each for key, each in now.items() if before.get(key) != each]
        yield {"gone": gone, "put": put, "pod": one["pod"], "want": one["want"]}
        before = now


def states_of(found: list[Object]) -> Iterator[Object]:
    """The cluster after each of these steps: {"objects", "pod", "want"}."""
    there: dict[Key, Object] = {}
    for step in found:
        for kind, namespace, name, _ in step["gone"]:
            del there[kind, namespace, name]
        there |= {key_of(each): each for each in step["put"]}
        yield {"objects": [*there.values()], "pod": step["pod"], "want": step["want"]}
