"""`python -m tests.differential.groups --seeds 0-99`: pod groups through kube-scheduler's Scheduler and Berth's engine.

The oracle runs upstream's own queue, pod group cycle, plugins and binding cycles on informers that are told by hand;
here runs the engine. After each step both are asked which pods are bound and where, what was written of the others, and
the condition of each group. Exit code 0: no difference; 1: some.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from scheduler.engine.budget import Budget
from scheduler.engine.engine import Engine
from scheduler.engine.instructions import (
    Bind,
    ClearNomination,
    Instruction,
    PatchCondition,
    PostFilterWrite,
    PreBindWrite,
    Preempt,
    SetGroupCondition,
    UnreserveWrite,
)
from scheduler.engine.stimuli import Bound, Cycle, Follows, Gone, PreBindWritten, Put, Tick
from scheduler.framework.binding import Patch, Write
from scheduler.framework.config import decode
from scheduler.framework.placement import Assignment
from scheduler.framework.plugin import NODE, Plugin
from scheduler.framework.profiles import build
from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.model.pod_group import COMPOSITE, NATIVE, GroupKey
from scheduler.plugins.registry import registry
from scheduler.plugins.topology_placement_generator import TopologyPlacementGenerator
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints
from scheduler.state.validate import validate
from tests.controlplane import build as programs
from tests.differential.client import Oracle
from tests.differential.fuzz import seeds_of
from tests.differential.generate.dice import Object
from tests.differential.generate.groups import FAMILIES, OPTIONS, case

PER_SEED = 8
ASKED_AGAIN = 15
"""In some cases most answers are other ones: which pod comes first from a map decides when a tree has come, say."""
MOST_CYCLES = 2_000
FAILS_UPSTREAM = re.compile(
    r'error in "DynamicResources" PodGroupPostFilter plugins: not found'
    r"|first placement status: pod group is unschedulable"
)
"""Fails there, and not here: the minimum was raised above the number of pods that the group has in the queue. No pod is
tried then, and DynamicResources misses what it would have noted of them. With a topology constraint, it is not asked,
and the group is told that no placement is available. Here its pods wait until there are enough of them."""
ANY_OF_THEM = re.compile(r'(cannot determine domain for already scheduled pods): ([^"\\]|\\.)*"')
"""Which pod is named, or which two domains, is left to chance there (the order of a map)."""
PAIR = re.compile(r'got: \\"([^"\\]*)\\" and \\"([^"\\]*)\\"')
"""Two profiles of pods that disagree. Which one is named first depends on how upstream closes the gap in its list of a
group's pods when one of them goes."""
TWICE = re.compile(r"(, pod group preemption: [^\"]*?)\1+")
"""What preemption says. In a tree, kube-scheduler adds it to one status as often as groups of the tree share that."""
BACKOFF = 20.0
ONE_SLICE = Budget(longest_slice=1_000_000)
"""A group is tried in one turn. By itself it is tried in slices, so that others are decided in between."""


class ByName(Plugin):
    """Prefers nodes by their names, which end in a number, as the oracle's plugin of this name."""

    name = "ByName"
    depends_on = NODE

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints:
        """The number."""
        names = cluster.nodes.names
        return np.array([int((names[row] or "n0")[1:]) for row in feasible], dtype=np.int64)

    def placement_score(self, assignment: Assignment, cluster: Cluster) -> int:
        """The highest number of its nodes."""
        names = cluster.nodes.names
        return max(int((names[row] or "n0")[1:]) for row in assignment.placement.rows)


class SortedPlacements(TopologyPlacementGenerator):
    """Under the name of the oracle's plugin, which sorts upstream's placements by name."""

    name = "SortedPlacements"


class World:
    """Berth's engine on a case, with an API server that does at once what it is told."""

    def __init__(self, config: str, *, restless: bool = False, composite: bool = False) -> None:
        """`restless`: groups that failed are tried again after their backoff though nothing has happened, and once more
        when they lack pods. `composite`: groups of groups count."""
        self._restless = restless
        read = json.loads(config)
        gates = {"name": "GangScheduling", "args": {"featureGates": {"CompositePodGroup": composite}}}
        for profile in read["profiles"]:
            profile["pluginConfig"] = [*profile.get("pluginConfig", ()), gates]
        self._engine = Engine(
            build(decode(read), {**registry(), **{one.name: one for one in (ByName, SortedPlacements)}}),
            budget=ONE_SLICE,
        )
        if restless:
            self._engine.queue.keeps_nodes = lambda entry: True  # type: ignore[method-assign]
        self._decoder = Decoder()
        self._now = 1000.0
        self._version = 0
        self._objects: dict[tuple[str, str], Object] = {}
        self._cycles = 0
        self.bound: dict[str, str] = {}
        self.pods: dict[str, list[str]] = {}
        self.groups: dict[str, list[str]] = {}
        self.deleted: list[str] = []
        for api in (NATIVE, COMPOSITE):
            self._do(self._engine.handle(Follows(api, True), self._now))

    def step(self, changes: Iterable[Object]) -> Object:
        """Make the changes, and let the engine work until nothing is left to try, also after all backoffs."""
        for change in changes:
            if "put" in change:
                self._put(change["put"])
            else:
                self._drop(change["drop"]["kind"], change["drop"]["metadata"]["name"])
            self._now += 0.001
        self._work()
        self._now += BACKOFF
        self._do(self._engine.handle(Tick(), self._now))
        if self._restless:
            for kind, name in list(self._objects):
                if kind == "PodGroup":
                    self._engine.queue.group_changed(GroupKey("default", name, NATIVE), self._now, helps=True)
        self._work()
        wrong = validate(self._engine.cluster)
        assert wrong == [], wrong
        return {
            "bound": dict(self.bound),
            "pods": {name: list(said) for name, said in self.pods.items()},
            "groups": {name: list(said) for name, said in self.groups.items()},
            "deleted": sorted(self.deleted),
        }

    def _work(self) -> None:
        while self._engine.has_work:
            self._cycles += 1
            assert self._cycles < MOST_CYCLES, "cycles and no end"
            self._do(self._engine.handle(Cycle(), self._now))
            self._now += 0.001

    def _put(self, document: Object) -> None:
        self._version += 1
        kind, meta = document["kind"], document["metadata"]
        before = self._objects.get((kind, meta["name"]))
        document = json.loads(json.dumps(document))
        document["metadata"]["resourceVersion"] = str(self._version)
        if before is not None and "status" in before and "status" not in document:
            document["status"] = before["status"]
        self._objects[kind, meta["name"]] = document
        thing = self._decoder.of_kind(kind)(wire.encode(document))
        self._do(self._engine.handle(Put(thing, before is None), self._now))

    def _drop(self, kind: str, name: str) -> None:
        document = self._objects.pop((kind, name), None)
        if document is not None:
            self.bound.pop(name, None)
            self.pods.pop(name, None)
            meta = document["metadata"]
            self._do(self._engine.handle(Gone(kind, meta["namespace"], name, meta["uid"]), self._now))

    def _do(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            match one:
                case PatchCondition(pod, reason, message):
                    self.pods[pod.name] = [reason, message]
                case SetGroupCondition():
                    self._set_condition(one)
                case Preempt():
                    self.deleted += [victim.name for victim in one.victims]
        for one in instructions:
            if isinstance(one, PreBindWrite):
                written = {patch.key: self._write(patch) for patch in one.writes}
                self._do(self._engine.handle(PreBindWritten(one.pod.uid, written), self._now))
                for _, _, name in written:
                    self._show("ResourceClaim", name)
            elif isinstance(one, (UnreserveWrite, PostFilterWrite)):
                for patch in one.writes:
                    self._write(patch)
                    self._show("ResourceClaim", patch.key[2])
        for one in instructions:
            if isinstance(one, Bind):
                self._do(self._engine.handle(Bound(one.pod.uid), self._now))
        for one in sorted((one for one in instructions if isinstance(one, Bind)), key=lambda bind: bind.pod.name):
            self.bound[one.pod.name] = one.node
            document = self._objects["Pod", one.pod.name]
            self._put({**document, "spec": {**document["spec"], "nodeName": one.node}})
        for one in instructions:
            match one:
                case Preempt():
                    for victim in one.victims:
                        self._drop("Pod", victim.name)
                case PatchCondition(nominated=str(node)):
                    self._nominate(one.pod.name, node)
                case ClearNomination():
                    self._nominate(one.pod.name, "")

    def _nominate(self, name: str, node: str) -> None:
        """The watch shows for which node a pod is nominated, unless it is gone or bound."""
        document = self._objects.get(("Pod", name))
        if document is not None and not document["spec"].get("nodeName"):
            self._put({**document, "status": {**document.get("status", {}), "nominatedNodeName": node}})

    def _write(self, one: Write) -> str:
        """Carry out a write of a claim; the watch shows it afterwards."""
        assert isinstance(one, Patch)
        document = json.loads(json.dumps(self._objects["ResourceClaim", one.key[2]]))
        assert one.resource_version in ("", document["metadata"]["resourceVersion"]), "nobody else writes claims here"
        status = document.setdefault("status", {})
        for name, value in one.change.get("status", {}).items():
            if one.strategic:
                out = {each["uid"] for each in value}
                value = [each for each in status.get(name, ()) if each["uid"] not in out]
            status[name] = value
        document["metadata"].update(one.change.get("metadata", {}))
        if (status.get("allocation") or {}).get("allocationTimestamp"):
            del status["allocation"]["allocationTimestamp"]
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._objects["ResourceClaim", one.key[2]] = json.loads(json.dumps(document))
        return str(self._version)

    def _show(self, kind: str, name: str) -> None:
        thing = self._decoder.of_kind(kind)(wire.encode(self._objects[kind, name]))
        self._do(self._engine.handle(Put(thing, False), self._now))

    def _set_condition(self, one: SetGroupCondition) -> None:
        name = one.group.name
        if self.groups.get(name, ["", ""])[0] == "True" and one.status != "True":
            return
        said = [one.status, one.reason, one.message]
        if self.groups.get(name) == said:
            return
        self.groups[name] = said
        document = self._objects["PodGroup", name]
        condition = {"type": "PodGroupInitiallyScheduled", "status": one.status, "reason": one.reason}
        self._put({**document, "status": {"conditions": [{**condition, "message": one.message}]}})


def answer(asked: Object, *, restless: bool = False) -> list[Object]:
    """What the engine does in each step of a case. `restless`: as in `World`."""
    world = World(asked["config"], restless=restless, composite=asked["id"].startswith("composite"))
    return [world.step(step) for step in asked["steps"]]


def members(asked: Object) -> set[str]:
    """The names of pods that are in a group."""
    documents = [change["put"] for step in asked["steps"] for change in step if "put" in change]
    return {one["metadata"]["name"] for one in documents if "schedulingGroup" in one.get("spec", {})}


def alike(text: str) -> str:
    """What was said, without what is left to chance in it."""
    text = PAIR.sub(lambda pair: "got: {} and {}".format(*sorted(pair.groups())), text)
    text = TWICE.sub(r"\1", text)
    return ANY_OF_THEM.sub(r'\1"', text)


def short(asked: Object) -> Iterator[set[str]]:
    """For each step, the gangs with fewer pods than their minimum since one has gone, and these pods.

    Here they wait until there are enough. If a gang was tried before and backs off, kube-scheduler tries it once more.
    """
    there: dict[str, Object] = {}
    for step in asked["steps"]:
        for change in step:
            document = change.get("put") or change["drop"]
            name = document["metadata"]["name"]
            if "put" in change:
                there[name] = document
            else:
                there.pop(name, None)
        found: set[str] = set()
        for name, document in there.items():
            needed = document.get("spec", {}).get("schedulingPolicy", {}).get("gang", {}).get("minCount", 0)
            of = {"podGroupName": name}
            pods = {pod for pod, one in there.items() if one.get("spec", {}).get("schedulingGroup") == of}
            if len(pods) < needed:
                found |= {name, *pods}
        trees = {name for name, one in there.items() if "parentCompositePodGroupName" in one.get("spec", {})}
        if found & trees or any(too_few_groups(name, there) for name in there):
            of_trees = [{"podGroupName": name} for name in trees]
            found |= trees
            found |= {pod for pod, one in there.items() if one.get("spec", {}).get("schedulingGroup") in of_trees}
        yield found


def too_few_groups(name: str, there: Mapping[str, Object]) -> bool:
    """Whether a group of groups has fewer than its minimum."""
    policy = there[name].get("spec", {}).get("schedulingPolicy", {})
    children = [one for one in there.values() if one.get("spec", {}).get("parentCompositePodGroupName") == name]
    needed: int = policy.get("gang", {}).get("minGroupCount", 0)
    return len(children) < needed


def without_victims(one: Object) -> Object:
    """What there is after a step. The oracle goes on to name the nodes of pods that were removed."""
    gone = set(one["deleted"])
    return {**one, **{part: {k: v for k, v in one[part].items() if k not in gone} for part in ("bound", "pods")}}


def differing(got: Object, want: Object, told: set[str], apart: Set[str] = frozenset()) -> list[str]:
    """What differs after a step, one line each. `told`: pods of which it matters what was written of them. `apart`:
    groups and pods of which it does not.

    Of a pod without a group it does not: Berth does not try it again for a node that is too small (docs/equal.md), and
    so does not count that node in its message.
    """
    got, want = (without_victims(json.loads(alike(json.dumps(one)))) for one in (got, want))
    failed = {name for name, said in want["groups"].items() if name in apart or FAILS_UPSTREAM.search(said[2])}
    if failed:
        got, want = (
            {**one, "groups": {k: v for k, v in one["groups"].items() if k not in failed}} for one in (got, want)
        )
    failed = {name for name, said in want["pods"].items() if FAILS_UPSTREAM.search(said[1])}
    parts = [part for part in ("bound", "groups", "deleted") if got[part] != want[part]]
    found = [f"{part}: got {got[part]}, want {want[part]}" for part in parts]
    for name in sorted(
        (told - apart) & ({*got["pods"], *want["pods"]} - got["bound"].keys() - want["bound"].keys()) - failed
    ):
        ours, theirs = got["pods"].get(name, ["", ""])[:2], want["pods"].get(name, ["", ""])[:2]
        if ours != theirs:
            found.append(f"{name}: got {ours}, want {theirs}")
    return found


class Verdict(NamedTuple):
    """What comes of a case."""

    lines: list[str]
    """One for each difference; none when both do the same."""
    restless: bool = False
    """Both do the same only if Berth, too, tries groups again for nothing after their backoff (docs/equal.md): they
    come after others that have waited as long, or still back off when something happens."""
    varied: bool = False
    """Both do the same, but kube-scheduler did something else when it was asked before."""
    conflicted: bool = False
    """They differ after pods of kube-scheduler's have failed since another pod of their group had written the claim
    that they share (kubernetes/kubernetes#140053), and came back later, when others had the room. Here one writes for
    all (decision 66)."""


def judge(asked: Object, answered: Object) -> Verdict:
    """Compare. A difference that is gone when Berth is as restless as kube-scheduler is a deliberate one."""
    if "error" in answered:
        return Verdict([f"{asked['id']}: the oracle: {answered['error']}"])
    lines = compared(asked, answered["want"], answer(asked))
    if lines and not compared(asked, answered["want"], answer(asked, restless=True)):
        return Verdict([], restless=True)
    if lines and any(step.get("conflicts") for step in answered["want"]):
        return Verdict([], conflicted=True)
    return Verdict(lines)


def judged(oracle: Oracle, cases: Sequence[Object], *options: str) -> list[Verdict]:
    """The verdict on each case. Where both differ, kube-scheduler is asked again, since its queue moves pods beside the
    loop: in a few of a thousand cases, the order of two pods is another one each time."""
    verdicts = [judge(*both) for both in zip(cases, oracle.groups(cases, *options), strict=True)]
    for _ in range(ASKED_AGAIN):
        unclear = [i for i, verdict in enumerate(verdicts) if verdict.lines]
        some = [cases[i] for i in unclear]
        for i, again in zip(unclear, oracle.groups(some, *options) if some else (), strict=True):
            verdict = judge(cases[i], again)
            if not verdict.lines:
                verdicts[i] = verdict._replace(varied=True)
    return verdicts


def compared(asked: Object, want: Sequence[Object], got: Sequence[Object]) -> list[str]:
    """What differs in the first step in which anything does, one line each."""
    told = members(asked)
    for number, (ours, theirs, apart) in enumerate(zip(got, want, short(asked), strict=True)):
        if found := differing(ours, theirs, told, apart):
            return [f"{asked['id']}, step {number}: {line}" for line in found]
    return []


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many cases differ, and how."""
    differ, restless, varied, conflicted = (
        sum(map(bool, of))
        for of in zip(*((v.lines, v.restless, v.varied, v.conflicted) for v in verdicts), strict=True)
    )
    return (
        f"{len(verdicts)} cases, {differ} differ; {restless} agree once groups are tried again for nothing; "
        f"kube-scheduler's own answers vary in {varied}, and its pods run into each other's claims in {conflicted}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.groups", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="0-99", metavar="0-99")
    parser.add_argument("--families", default=",".join(FAMILIES))
    chosen = parser.parse_args(arguments)
    oracle = Oracle(programs.ORACLE.command())
    found: list[Verdict] = []
    for family in chosen.families.split(","):
        asked = [case(family, seed, number) for seed in chosen.seeds for number in range(PER_SEED)]
        verdicts = judged(oracle, asked, *OPTIONS.get(family, ()))
        for line in (line for verdict in verdicts for line in verdict.lines[:6]):
            print(line)
        print(f"{family}: {counted(verdicts)}")
        found += verdicts
    print(f"all: {counted(found)}")
    different = any(verdict.lines for verdict in found)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
