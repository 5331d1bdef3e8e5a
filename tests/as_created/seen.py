"""What became of a file in the real cluster, and where that differs from what was foretold."""

from __future__ import annotations

import copy
import difflib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from tests.as_created.foretold import End, Fate, Foretold, in_turn, key_of
from tests.as_created.moments import Said
from tests.as_created.town import PATHS, Town, plural
from tests.controlplane.api import Object

_STAND_INS = (
    *("pod-template-hash", "controller-revision-hash", "controller-uid", "batch.kubernetes.io/controller-uid"),
)
"""Labels whose values controllers make of nothing, or by hashes of their own: where else a value is, is compared."""
_IDENTITY = ("nodeName", "hostname", "subdomain")
"""Of a pod's spec: where it was put, and names in DNS that StatefulSets and Jobs give. No decision reads these."""


class Seen(NamedTuple):
    """Pods of the file, by workload, and how it stands."""

    pods: dict[str, list[Object]]
    end: End


Pods = dict[str, list[Object]]
"""By workload."""


def pods_there(town: Town, namespaces: Sequence[str]) -> Pods:
    """The pods that are there."""
    there = town.pods(namespaces)
    owners = _owners(town, namespaces) if any(pod["metadata"].get("ownerReferences") for pod in there) else {}
    found: Pods = {}
    for pod in there:
        found.setdefault(_owner(pod, owners), []).append(pod)
    return found


def seen(town: Town, namespaces: Sequence[str], file: Sequence[Object], earlier: Pods) -> Seen:
    """How it stands with a file. `earlier`: the pods that were there before it was created."""
    known = {pod["metadata"]["uid"]: pod for of in earlier.values() for pod in of}
    there = pods_there(town, namespaces)
    new = {key: [pod for pod in of if pod["metadata"]["uid"] not in known] for key, of in there.items()}
    pods = {key_of(made): list[Object]() for made in file} | {key: of for key, of in new.items() if of}
    fates = {}
    for key, of in pods.items():
        nodes = Counter(pod["spec"]["nodeName"] for pod in of if pod["spec"].get("nodeName"))
        waiting = Counter(_message(pod) for pod in of if not pod["spec"].get("nodeName"))
        fates[key] = Fate(dict(nodes), dict(waiting))
    now = {pod["metadata"]["uid"]: pod for of in there.values() for pod in of}
    gone = sorted(name_of(pod) for uid, pod in known.items() if uid not in now)
    freed = {
        name_of(now[uid]): now[uid]["spec"]["nodeName"]
        for uid, pod in known.items()
        if uid in now and not pod["spec"].get("nodeName") and now[uid]["spec"].get("nodeName")
    }
    return Seen(pods, End(fates, gone, freed))


def made_all(made: Object, told: Foretold, found: Seen) -> bool:
    """Whether there are as many pods of an object as were foretold, and Berth has had each of them."""
    key = key_of(made)
    pods = found.pods[key]
    return len(pods) >= _number(made, told, found.end.fates[key]) and all(
        pod["spec"].get("nodeName") or _message(pod) for pod in pods
    )


def _number(made: Object, told: Foretold, fate: Fate) -> int:
    """How many pods of an object there will be. Those that are created in turn end with the first that waits."""
    key = key_of(made)
    if key in told.stuck:
        return 0
    limit = told.limits.get(key)
    number = limit.let if limit is not None else len(told.pods[key])
    return min(number, 1 + sum(fate.nodes.values())) if in_turn(made) and fate.waiting else number


def differences(
    town: Town,
    file: Sequence[Object],
    told: Foretold,
    end: End,
    found: Seen,
    refusals: Mapping[str, str],
    said: Said | None = None,
) -> Iterator[str]:
    """Each in a line. `end`: one of those that were foretold. `refusals`: of pods that were not created at all.

    `said`: what else those that wait may be told, as the order of their attempts is not determined.
    """
    for made in file:
        key = key_of(made)
        pods, limit = found.pods[key], told.limits.get(key)
        expected = end.fates.get(key, Fate({}, {}))
        number = _number(made, told, expected)
        if len(pods) != number:
            yield f"{key}: {len(pods)} pods, expected {number}"
        yield from _pods(key, told.pods[key], pods)
        yield from _names(made, told.pods[key], pods)
        if found.end.fates[key] != expected and not _at_a_moment(pods, expected, said or {}):
            yield f"{key}: {found.end.fates[key]}, expected {expected}"
        if key in told.refused or limit is not None:
            refused = told.refused.get(key)
            whys = {refused} if refused else limit.whys if limit else set[str]()
            yield from _why(town, made, whys, refusals)
        elif key in refusals:
            yield f"{key}: refused, which was not expected: {refusals[key]}"
    for key in found.pods.keys() - {key_of(made) for made in file}:
        yield f"{key}: {len(found.pods[key])} pods of it, and it is not in the file"
    if found.end.preempted != end.preempted:
        yield f"removed: {found.end.preempted}, expected {end.preempted}"
    if found.end.freed != end.freed:
        yield f"of those that waited: {found.end.freed}, expected {end.freed}"


def _at_a_moment(pods: Sequence[Object], expected: Fate, said: Said) -> bool:
    """Whether the pods are where they were expected, and those that wait were told what was so at some moment."""
    nodes = Counter(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    others = Counter(text for pod in waiting if (text := _message(pod)) not in said.get(name_of(pod), ()))
    as_many = len(waiting) == sum(expected.waiting.values())
    return nodes == expected.nodes and as_many and others <= Counter(expected.waiting)


def _pods(key: str, expected: Sequence[Object], found: Sequence[Object]) -> Iterator[str]:
    """Each pod that there is, is one of those that were foretold, field by field."""
    left = Counter(map(_plain, expected))
    for pod in found:
        text = _plain(pod)
        if left[text]:
            left[text] -= 1
            continue
        near = max(left, key=lambda other: difflib.SequenceMatcher(None, text, other).quick_ratio(), default="")
        lines = difflib.unified_diff(near.splitlines(), text.splitlines(), "expected", "found", lineterm="", n=2)
        yield f"{key}: Pod {name_of(pod)}:\n" + "\n".join(lines)


def _names(made: Object, expected: Sequence[Object], found: Sequence[Object]) -> Iterator[str]:
    known = {pod["metadata"]["name"] for pod in expected}
    for pod in found:
        name = pod["metadata"]["name"]
        own = made["kind"] in ("Pod", "StatefulSet")
        if name not in known if own else not name.startswith(f"{made['metadata']['name']}-"):
            yield f"{key_of(made)}: a pod is called {name}, expected {sorted(known)}"


def _why(town: Town, made: Object, whys: Set[str], refusals: Mapping[str, str]) -> Iterator[str]:
    """The API server said to one of its pods what was foretold; the name of the pod aside, and bounds in any order.

    `whys`: for each of the quotas that refuse it, which the API server asks in no fixed order.
    """
    key = key_of(made)
    if made["kind"] == "Pod":
        said = [refusals.get(key, "")]
    else:
        if made["kind"] == "DaemonSet" and not town.nodes_of(made):
            return  # nobody has tried to make one
        stem = made["metadata"]["name"]
        about = town.refusals(made["metadata"]["namespace"])
        said = [text for of, text in about if of.split()[1] == stem or of.split()[1].startswith(f"{stem}-")]
    if not any(_same(why, each) for why in whys for each in said):
        yield f"{key}: refused with {said}, expected {' or '.join(sorted(whys))}"


def _same(expected: str, said: str) -> bool:
    for word in ("is forbidden: ", "is invalid: "):
        if word in expected:
            return sorted(expected.partition(word)[2]) == sorted(said.partition(word)[2])
    return bool(expected) and said.endswith(expected)


def _plain(pod: Object) -> str:
    """The pod without what is not compared; one line for each value."""
    labels = dict(pod["metadata"].get("labels") or {})
    annotations = dict(pod["metadata"].get("annotations") or {})
    annotations.pop("batch.kubernetes.io/job-completion-index", None)
    spec = {key: value for key, value in copy.deepcopy(pod["spec"]).items() if key not in _IDENTITY}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.pop("env", None)
    whole = {"labels": labels, "annotations": annotations, "spec": spec, "qosClass": pod["status"]["qosClass"]}
    text = json.dumps(whole, indent=1, sort_keys=True)
    for key in _STAND_INS:
        if key in labels:
            text = text.replace(f'"{labels[key]}"', f'"<{key}>"')
    return text


def _message(pod: Object) -> str:
    """Why a pod waits; empty where nobody has said it yet."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled":
            gated = condition.get("reason") == "SchedulingGated"
            return "waits for its scheduling gates" if gated else str(condition.get("message", ""))
    return ""


def _owners(town: Town, namespaces: Sequence[str]) -> dict[str, str]:
    """Uid → workload, of what makes pods and is made itself."""
    found = {}
    for kind in ("ReplicaSet", "Job"):
        for made in town.plane.api.list(f"{PATHS[kind]}/{plural(kind)}"):
            references = made["metadata"].get("ownerReferences", ())
            if made["metadata"]["namespace"] in namespaces and references:
                found[made["metadata"]["uid"]] = (
                    f"{references[0]['kind']} {made['metadata']['namespace']}/{references[0]['name']}"
                )
    return found


def _owner(pod: Object, owners: Mapping[str, str]) -> str:
    for each in pod["metadata"].get("ownerReferences", ()):
        if each.get("controller"):
            return owners.get(each["uid"]) or f"{each['kind']} {pod['metadata']['namespace']}/{each['name']}"
    return f"Pod {name_of(pod)}"


def name_of(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
