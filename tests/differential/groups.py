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
from collections.abc import Iterator, Sequence, Set
from itertools import combinations
from typing import NamedTuple

from tests.controlplane import build as programs
from tests.differential.client import Oracle
from tests.differential.fuzz import seeds_of
from tests.differential.generate.dice import Object
from tests.differential.generate.groups import FAMILIES, OPTIONS, case
from tests.differential.groups_here import answer

PER_SEED = 8
ASKED_AGAIN = 60
"""In some cases most answers are other ones: it is left to chance which two of five equal pods go, say."""
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
WAKES = tuple(dict.fromkeys(some, True) for n in (1, 2, 3) for some in combinations(("restless", "drowsy", "jumpy"), n))
"""When pods are tried again here and there, and not on both sides: each difference by itself, then several together."""


def members(asked: Object) -> set[str]:
    """The names of pods that are in a group."""
    documents = [change["put"] for step in asked["steps"] for change in step if "put" in change]
    return {one["metadata"]["name"] for one in documents if "schedulingGroup" in one.get("spec", {})}


def alike(text: str) -> str:
    """What was said, without what is left to chance in it."""
    text = PAIR.sub(lambda pair: "got: {} and {}".format(*sorted(pair.groups())), text)
    return ANY_OF_THEM.sub(r'\1"', text)


def short(asked: Object) -> Iterator[set[str]]:
    """For each step, the gangs that lack pods, and their pods.

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
            spec = document.get("spec", {})
            needed = spec.get("schedulingPolicy", {}).get("gang", {}).get("minCount", 0)
            of = {"podGroupName": name}
            its = [pod for pod, one in there.items() if one.get("spec", {}).get("schedulingGroup") == of]
            if len(its) < needed:
                found |= {name, *its}
        yield found


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
    drowsy: bool = False
    """Both do the same only if Berth, too, leaves a pod asleep that found no node even without victims, when a filter
    that kept it from them might let it through now (docs/equal.md)."""
    repelled: bool = False
    """They differ after a victim has gone here, and not there, whose required anti-affinity may keep pods away:
    kube-scheduler forgets it while it spares victims (decision 26)."""
    jumpy: bool = False
    """Both do the same only if Berth, too, tries a pod that an extender has refused whenever something is written of a
    group, or a pod comes (decision 14)."""
    varied: bool = False
    """Both do the same, but kube-scheduler did something else when it was asked before."""
    conflicted: bool = False
    """They differ after pods of kube-scheduler's have failed since another pod of their group had written the claim
    that they share (kubernetes/kubernetes#140053), and came back later, when others had the room. Here one writes for
    all (decision 23)."""


def judge(asked: Object, answered: Object) -> Verdict:
    """Compare. A difference that is gone when Berth is as restless as kube-scheduler is a deliberate one."""
    if "error" in answered:
        return Verdict([f"{asked['id']}: the oracle: {answered['error']}"])
    lines = compared(asked, answered["want"], answer(asked))
    for wakes in WAKES if lines else ():
        if not compared(asked, answered["want"], answer(asked, **wakes)):
            return Verdict([], **wakes)
    if lines and repelling(asked, answer(asked), answered["want"]):
        return Verdict([], repelled=True)
    if lines and any(step.get("conflicts") for step in answered["want"]):
        return Verdict([], conflicted=True)
    return Verdict(lines)


def repelling(asked: Object, got: Sequence[Object], want: Sequence[Object]) -> bool:
    """Whether, in the first step in which other victims go, only such go here and not there as repel pods."""
    documents = [change["put"] for step in asked["steps"] for change in step if "put" in change]
    repel = {
        one["metadata"]["name"] for one in documents if "podAntiAffinity" in one.get("spec", {}).get("affinity", {})
    }
    for ours, theirs in zip(got, want, strict=True):
        if ours["deleted"] != theirs["deleted"]:
            more = set(ours["deleted"]) - set(theirs["deleted"])
            return bool(more) and more <= repel and set(theirs["deleted"]) <= set(ours["deleted"])
    return False


def judged(oracle: Oracle, cases: Sequence[Object], *options: str) -> list[Verdict]:
    """The verdict on each case. Where both differ, kube-scheduler is asked again, since its queue moves pods beside the
    loop, and binding cycles run beside each other: in a few of a thousand cases, the order of two pods is another one
    each time."""
    verdicts = [judge(*both) for both in zip(cases, oracle.groups(cases, *options), strict=True)]
    for _ in range(ASKED_AGAIN):
        unclear = [i for i, verdict in enumerate(verdicts) if verdict.lines]
        some = [cases[i] for i in unclear]
        for i, again in zip(unclear, oracle.groups(some, "-any-order", *options) if some else (), strict=True):
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
    differ, restless, drowsy, repelled, jumpy, varied, conflicted = (
        sum(map(bool, of)) for of in zip(*verdicts, strict=True)
    )
    return (
        f"{len(verdicts)} cases, {differ} differ; {restless} agree once groups are tried again for nothing, "
        f"{drowsy} once pods are left asleep, {jumpy} once pods that an extender refused are woken by writes of "
        f"groups; a victim is spared there that repels pods in {repelled}; "
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
