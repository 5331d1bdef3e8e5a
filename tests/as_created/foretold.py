"""What Berth says of a file, on a dump of the cluster: the pods as they would be stored, and where they would go."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from podberth.cli.given import given
from podberth.cli.main import run
from podberth.cli.simulate import Asked
from podberth.engine.schedule_one import Choice
from podberth.explain.explain import explain
from podberth.explain.explanation import Remedy
from podberth.explain.objects.admission import Admission
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.outcome import Outcome
from podberth.explain.simulate.plan import plan
from podberth.explain.written import of_cluster
from podberth.model.pod import Pod
from tests.controlplane.api import Object

_SEEDS = 60
"""Ways to choose among equally good nodes that are tried at most."""
_QUOTA = re.compile(r"(.+): ResourceQuota \S+ lets (?:only ([\d,]+)|none) of ([\d,]+) be created: (.*)")


class Fate(NamedTuple):
    """What becomes of the pods of one workload: how many are on each node, and how many wait with each message."""

    nodes: dict[str, int]
    waiting: dict[str, int]


class End(NamedTuple):
    """How it ends: by workload; which pods were removed; where pods are that waited before."""

    fates: dict[str, Fate]
    preempted: list[str]
    freed: dict[str, str]


class Limit(NamedTuple):
    """Quotas let only so many pods of a workload be created, and one of those that refuse the next says why."""

    let: int
    of: int
    whys: frozenset[str]


class Foretold(NamedTuple):
    """`pods`: by workload, as they would be stored. `refused`: workload → what the API server says to its pods.

    `stuck`: workloads that wait for a pod before they create the next. `ends`: how it ends, first as Berth says it,
    then for other choices among equally good nodes.
    """

    pods: dict[str, list[Object]]
    limits: dict[str, Limit]
    refused: dict[str, str]
    stuck: Container[str]
    ends: Iterator[End]


def dump(kubeconfig: Path, to: Path) -> None:
    """As a user does it."""
    code = run(["dump", f"--kubeconfig={kubeconfig}", "-f", str(to)])
    assert code == 0, f"berth dump ended with {code}"


def foretold(dumped: Path, config: Path, file: list[Object], waiting: Container[str]) -> Foretold:
    """What is said of a file. `waiting`: workloads of which a pod waits already."""
    outcome, batches = _simulated(dumped, config, file)
    with patch.object(Admission, "quotas", _backwards):
        otherwise, _ = _simulated(dumped, config, file)
    pods: dict[str, list[Object]] = {key_of(made): [] for made in file}
    for batch in batches:
        pods[batch.owner] += [batch.stored(number) for number in range(batch.count)]
    limits = _limits(outcome.notes)
    for key, other in _limits(otherwise.notes).items():
        limits[key] = limits[key]._replace(whys=limits[key].whys | other.whys)
    trimmed = [_trimmed(made, limits.get(key_of(made))) for made in file]
    kept = [made for made in trimmed if made is not None]
    stuck = {key_of(made) for made in file if in_turn(made) and key_of(made) in waiting}
    return Foretold(pods, limits, _refused(outcome, file), stuck, _ends(dumped, config, kept, stuck))


def key_of(made: Object) -> str:
    """A workload as Berth calls it."""
    return f"{made['kind']} {made['metadata']['namespace']}/{made['metadata']['name']}"


def in_turn(made: Object) -> bool:
    """Whether its pods are created one after the other, each when the one before it runs."""
    return made["kind"] == "StatefulSet" and made["spec"].get("podManagementPolicy") != "Parallel"


def _ends(dumped: Path, config: Path, file: list[Object], stuck: Container[str]) -> Iterator[End]:
    for seed in range(_SEEDS):
        yield _end(*_simulated(dumped, config, file, seed), file, stuck) if file else End({}, [], {})


def _simulated(dumped: Path, config: Path, file: list[Object], seed: int = 0) -> tuple[Outcome, list[Batch]]:
    """What `berth simulate` does, and the batches that it was asked about."""
    path = dumped.with_name("file.json")
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": file}))
    read = given(
        str(config),
        [str(dumped)],
        [str(path)],
        scheduler=None,
        validate=seed == 0,
        kubeconfig=None,
        context=None,
        timeout="30s",
    )
    [framework] = read.frameworks.values()
    asked = Asked(read.world, framework, None, read.usual)
    for name, held in read.files.items():
        asked.add(name, held)
    with _choosing(seed):
        outcome = plan(
            read.world,
            framework,
            asked.batches,
            added=asked.added,
            not_simulated=asked.not_simulated,
            notes=asked.notes,
        )
    return outcome, asked.batches


@contextmanager
def _choosing(seed: int) -> Iterator[None]:
    """Choose among equally good nodes in another way; 0: as Berth does."""

    def pick(_: Choice, uid: str, equals: int) -> int:
        return Random(f"{seed}/{uid}").randrange(equals)

    with patch.object(Choice, "pick", pick) if seed else nullcontext():
        yield


def _end(outcome: Outcome, batches: list[Batch], file: list[Object], stuck: Container[str]) -> End:
    nodes: dict[str, Counter[str]] = {key_of(made): Counter() for made in file}
    waiting: dict[str, Counter[str]] = {key_of(made): Counter() for made in file}
    for told in outcome.workloads:
        nodes[told.workload] += Counter(told.nodes)
    for each in outcome.waiting:
        [owner] = {batch.owner for batch in batches if batch.holds(each.pod)}
        waiting[owner][each.message] += each.pods
    for made in file:
        of = waiting[key_of(made)]
        if key_of(made) in stuck:
            of.clear()
        elif in_turn(made) and of:
            # The first that waits keeps the others from being created.
            waiting[key_of(made)] = Counter([next(iter(of))])
    fates = {key: Fate(dict(nodes[key]), dict(waiting[key])) for key in nodes}
    others = [*outcome.others.ready, *outcome.others.freed]
    return End(fates, sorted(each.pod for each in outcome.preempted), {each.pod: each.node for each in others})


def _refused(outcome: Outcome, file: list[Object]) -> dict[str, str]:
    """Workloads of which it is said that the API server refuses their pods."""
    found = {}
    for line in outcome.not_simulated:
        for made in file:
            _, _, said = line.partition(f"{made['kind']} {made['metadata']['name']}: the API server refuses its pods: ")
            if said:
                found[key_of(made)] = said
    return found


def _limits(notes: Iterable[str]) -> dict[str, Limit]:
    found = filter(None, map(_QUOTA.fullmatch, notes))
    return {each[1]: Limit(_number(each[2] or "0"), _number(each[3]), frozenset([each[4]])) for each in found}


_forwards = Admission.quotas


def _backwards(admission: Admission, namespace: str, there: Iterable[Pod]) -> list[Object]:
    """The quotas in the other order: of those that refuse a pod, the API server may name any."""
    return _forwards(admission, namespace, there)[::-1]


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _trimmed(made: Object, limit: Limit | None) -> Object | None:
    """A workload with only as many pods as quotas let be created: the others are simulated, but never created."""
    if limit is None:
        return made
    if made["kind"] == "Pod":
        return None
    made = copy.deepcopy(made)
    less = limit.of - limit.let
    if made["kind"] in ("Job", "CronJob"):
        job = made["spec"] if made["kind"] == "Job" else made["spec"]["jobTemplate"]["spec"]
        job["parallelism"] = min(job["parallelism"], job.get("completions", job["parallelism"])) - less
    else:
        made["spec"]["replicas"] -= less
    return made


def remedies(dumped: Path, config: Path, pod: str) -> list[Remedy]:
    """What `berth explain` offers for a pod, namespace/name."""
    read = given(
        str(config),
        [str(dumped)],
        [],
        scheduler=None,
        validate=False,
        kubeconfig=None,
        context=None,
        timeout="30s",
    )
    [framework] = read.frameworks.values()
    asked = read.world.waiting[pod]
    written = of_cluster(asked, read.world)
    answer = explain(asked, framework, read.world.cluster, others=read.world.waiting.values(), written=written)
    return answer.remedies
