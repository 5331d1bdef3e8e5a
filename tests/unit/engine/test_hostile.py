"""Pods that no API server should let through, and some that it does: each ends bound, or waits with a reason."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Failed, PatchCondition, RecordFailure
from podberth.engine.stimuli import Follows, Put
from podberth.framework.status import LONGEST_TEXT
from podberth.model import wire
from podberth.model.pod_group import NATIVE

from .conftest import Harness, node, pod

Object = dict[str, Any]
LONG = "x" * 300
TEXTS = st.sampled_from(
    ["", "a", "zone", "kubernetes.io/hostname", "n1", "web", "\x00\x1b[31m", "ü" * 70, LONG, "a/b/c", "-"]
)
NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 65535, 65536, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)])
QUANTITIES = st.sampled_from(
    ["", "0", "1", "-1", "100m", "1Gi", "9E", "1e400", "-9E", "1.5e-9", "NaN", "0x10", "1_000", "1 Gi", "١", 7, -3, 1.5]
)
RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "example.com/crane", "hugepages-2Mi", "", LONG]),
    QUANTITIES,
    max_size=4,
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """An object with any of these fields; now and then one is null, which makes most objects unreadable."""
    return st.fixed_dictionaries(
        {}, optional={name: st.one_of(*[values] * 30, st.none()) for name, values in fields.items()}
    )


def few(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, max_size=3)


LABELS = st.dictionaries(TEXTS, TEXTS, max_size=3)
REQUIREMENTS = few(
    some(
        key=TEXTS,
        operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "gt", "", "Near"]),
        values=few(st.sampled_from(["", "a", "1", "-1", "1_0", "99999999999999999999", LONG])),
    )
)
SELECTORS = some(matchLabels=LABELS, matchExpressions=REQUIREMENTS)
NODE_TERMS = some(matchExpressions=REQUIREMENTS, matchFields=REQUIREMENTS)
POD_TERMS = some(
    topologyKey=TEXTS,
    labelSelector=SELECTORS,
    namespaces=few(TEXTS),
    namespaceSelector=SELECTORS,
    matchLabelKeys=few(TEXTS),
    mismatchLabelKeys=few(TEXTS),
)
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def inter(terms: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    weighted = some(weight=NUMBERS, podAffinityTerm=terms)
    return some(**{REQUIRED: few(terms), PREFERRED: few(weighted)})


NODE_PREFERENCES = few(some(weight=NUMBERS, preference=NODE_TERMS))
AFFINITY = some(
    nodeAffinity=some(**{REQUIRED: some(nodeSelectorTerms=few(NODE_TERMS)), PREFERRED: NODE_PREFERENCES}),
    podAffinity=inter(POD_TERMS),
    podAntiAffinity=inter(POD_TERMS),
)
TOLERATIONS = few(
    some(
        key=TEXTS,
        operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "Near"]),
        value=TEXTS,
        effect=st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule", "Maybe"]),
        tolerationSeconds=NUMBERS,
    )
)
SPREAD = few(
    some(
        maxSkew=NUMBERS,
        topologyKey=TEXTS,
        whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway", "", "Never"]),
        labelSelector=SELECTORS,
        minDomains=NUMBERS,
        nodeAffinityPolicy=st.sampled_from(["Honor", "Ignore", "", "Maybe"]),
        nodeTaintsPolicy=st.sampled_from(["Honor", "Ignore", "", "Maybe"]),
        matchLabelKeys=few(TEXTS),
    )
)
CONTAINERS = few(
    some(
        name=TEXTS,
        image=TEXTS,
        resources=some(requests=RESOURCES, limits=RESOURCES),
        ports=few(some(hostPort=NUMBERS, containerPort=NUMBERS, hostIP=TEXTS, protocol=TEXTS)),
        restartPolicy=st.sampled_from(["", "Always", "Sometimes"]),
    )
)
VOLUMES = few(
    some(
        name=TEXTS,
        persistentVolumeClaim=some(claimName=TEXTS, readOnly=st.booleans()),
        ephemeral=some(volumeClaimTemplate=some(spec=some(storageClassName=TEXTS))),
        awsElasticBlockStore=some(volumeID=TEXTS),
        gcePersistentDisk=some(pdName=TEXTS),
        iscsi=some(iqn=TEXTS, lun=NUMBERS),
        rbd=some(image=TEXTS, monitors=few(TEXTS)),
        image=some(reference=TEXTS),
    )
)
SPECS = some(
    affinity=AFFINITY,
    containers=CONTAINERS,
    initContainers=CONTAINERS,
    nodeSelector=LABELS,
    tolerations=TOLERATIONS,
    topologySpreadConstraints=SPREAD,
    volumes=VOLUMES,
    overhead=RESOURCES,
    resources=some(requests=RESOURCES, limits=RESOURCES),
    priority=NUMBERS,
    preemptionPolicy=TEXTS,
    schedulingGates=few(some(name=TEXTS)),
    resourceClaims=few(some(name=TEXTS)),
    hostNetwork=st.booleans(),
)
STATUSES = some(nominatedNodeName=TEXTS, conditions=few(some(type=TEXTS, status=TEXTS, reason=TEXTS)), phase=TEXTS)
HOSTILE = st.tuples(SPECS, LABELS, STATUSES)


def cluster() -> Harness:
    """Three nodes, one of which is tainted, with pods on them that have opinions on others."""
    harness = Harness()
    tainted = node("n3", zone="b")
    tainted["spec"] = {"taints": [{"key": "zone", "effect": "NoSchedule"}]}
    avoids = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"web": "a"}}}]}}
    harness.put(node("n1", zone="a"), node("n2", zone="a"), tainted)
    harness.put(pod("here", nodeName="n1", affinity=avoids), pod("small", cpu="3", nodeName="n2", priority=-5))
    return harness


def hostile(index: int, made: tuple[Object, Object, Object]) -> Object:
    spec, labels, status = made
    return {
        "kind": "Pod",
        "metadata": {"name": f"hostile-{index}", "namespace": "default", "uid": f"hostile-{index}", "labels": labels},
        "spec": {"containers": [], **spec, "schedulerName": "berth"},
        "status": status,
    }


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(HOSTILE, min_size=1, max_size=3))
def test_hostile_pods(pods: list[tuple[Object, Object, Object]]) -> None:
    """What can be read as a pod comes to an end in one attempt, and an ordinary pod beside it is scheduled.

    A pod that goes elsewhere than to the node kept for it makes room there: then others have another attempt, once.
    """
    harness = cluster()
    read = given_up = 0
    for i, made in enumerate(pods):
        try:
            found = harness.decoder.pod(wire.encode(hostile(i, made)))
        except msgspec.DecodeError:
            continue  # the reflector names such an object in the log and does without it
        read += 1
        given_up += bool(found.nominated_node_name)
        harness.handle(Put(found))
    harness.put(pod("plain", cpu="10m"))
    done = harness.cycles()
    assert read * (1 + given_up) >= len([one for one in done if isinstance(one, Failed)])
    ends = {one.pod.name: one for one in done if isinstance(one, Bind | Failed)}
    assert isinstance(ends["plain"], Bind)
    waiting = {queued.pod.name: queued for queued in harness.engine.queue}
    for name, end in ends.items():
        if isinstance(end, Failed):
            assert end.message
            assert name in waiting
            said = [one for one in done if isinstance(one, PatchCondition) and one.pod.name == name]
            assert [one.message for one in said] == [end.message]
    assert validate(harness.engine.cluster) == []


def repels(count: int) -> Object:
    """So many anti-affinity terms."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    return {"podAntiAffinity": {REQUIRED: [dict(term, namespaces=[f"ns{i}"]) for i in range(count)]}}


def requires(*terms: Object) -> Object:
    """Node affinity to any of these terms."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


NO_ZONE = {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}
NOWHERE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["nowhere"]}]}
MOON = {"maxSkew": 1, "topologyKey": "moon", "whenUnsatisfiable": "DoNotSchedule"}
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}


@pytest.mark.parametrize(
    ("id", "spec", "says"),
    [
        ("contradiction", {"nodeSelector": {"zone": "a"}, "affinity": requires(NO_ZONE)}, "node affinity/selector"),
        ("no terms", {"affinity": requires()}, "2 node(s) didn't match Pod's node affinity/selector"),
        ("far too much", {"overhead": {"cpu": "9E"}}, "2 Insufficient cpu"),
        ("a node that is not there", {"affinity": requires(NOWHERE)}, "0/3 nodes are available"),
        ("a key that no node has", {"topologySpreadConstraints": [MOON]}, "missing required label"),
        ("a claim that is not there", {"volumes": [CLAIM]}, 'persistentvolumeclaim "c" not found'),
    ],
)
def test_absurd_but_readable(id: str, spec: Object, says: str) -> None:
    """Unschedulable, with the reason, once."""
    harness = cluster()
    harness.put(pod("absurd", **spec))
    (failed,) = [one for one in harness.cycles() if isinstance(one, Failed)]
    assert failed.reason == "Unschedulable"
    assert says in failed.message
    assert not harness.engine.has_work


def test_ten_thousand_terms() -> None:
    """Beyond a limit: told which, and that no node would help; it is not tried, whatever happens, until it changes."""
    harness = cluster()
    absurd = pod("absurd", affinity=repels(10_000))
    absurd["metadata"]["uid"] = "absurd"
    done = harness.tell(absurd)
    harness.put(node("more"))
    harness.after(1000)
    assert harness.binds() == {}
    (failed,) = [one for one in done if isinstance(one, Failed)]
    (condition,) = [one for one in done if isinstance(one, PatchCondition)]
    assert failed.reason == condition.reason == "SchedulerError"
    assert failed.message == condition.message
    assert failed.message == "too large for this scheduler: 10,000 affinity terms, at most 128"
    harness.put(pod("absurd", affinity=repels(1)))
    assert harness.binds().keys() == {"absurd"}


@pytest.mark.parametrize("known", [False, True])
def test_who_takes_over_tells_pods_beyond_a_limit(known: bool) -> None:
    """What was decided while it stood by was not written. One that its former leader has told is not told again."""
    harness = cluster()
    absurd = pod("absurd", affinity=repels(129))
    if known:
        text = "too large for this scheduler: 129 affinity terms, at most 128"
        said = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": text}
        absurd["status"] = {"conditions": [said]}
    harness.tell(absurd)
    harness.engine.takes_over(harness.now, 145.0)
    told = harness.tick(1)
    assert len([one for one in told if isinstance(one, RecordFailure)]) == (not known)
    assert len([one for one in told if isinstance(one, PatchCondition)]) == (not known)


def test_an_active_pod_that_is_given_too_many_labels_is_not_tried() -> None:
    """It is told which limit it is beyond, and is tried once it is within it again."""
    harness = cluster()
    active = pod("active", meta={"uid": "active"})
    harness.put(active)
    done = harness.tell(pod("active", meta={"uid": "active"}, labels={f"example.com/{i}": "" for i in range(257)}))
    (failed,) = [one for one in done if isinstance(one, Failed)]
    assert failed.message == "too large for this scheduler: 257 labels, at most 256"
    assert harness.binds() == {}
    harness.put(active)
    assert harness.binds().keys() == {"active"}


def test_a_pod_of_an_active_group_that_is_given_too_many_labels() -> None:
    """Its group is not tried: the pod would be bound with it."""
    harness = cluster()
    harness.handle(Follows(NATIVE, followed=True))
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    harness.put({"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}, "spec": gang})
    spec: Object = {"schedulingGroup": {"podGroupName": "g"}}
    harness.put(pod("a", **spec), pod("b", **spec))
    done = harness.tell(pod("b", meta={"uid": "b"}, labels={f"example.com/{i}": "" for i in range(257)}, **spec))
    assert [one.pod.name for one in done if isinstance(one, Failed)] == ["b"]
    assert harness.binds() == {}
    harness.put(pod("b", **spec))
    assert harness.binds().keys() == {"a", "b"}


def test_a_mebibyte_of_annotations() -> None:
    """With control characters in names of labels and of a claim: told once, in few words without them."""
    harness = cluster()
    labels = {f"{i}\x00\x1b[31m\n": "\x07\u202e" for i in range(50)}
    meta = {"annotations": {f"example.com/a{i}": "x" * 1024 for i in range(1024)}, "labels": labels}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c\x1b[31m\n" * 500}}]
    harness.put(pod("heavy", meta=meta, affinity=repels(100), volumes=volumes))
    harness.put(pod("plain", cpu="10m"))
    done = harness.cycles()
    assert [one.pod.name for one in done if isinstance(one, Bind)] == ["plain"]
    (failed,) = [one for one in done if isinstance(one, Failed)]
    (event,) = [one for one in done if isinstance(one, RecordFailure)]
    assert failed.pod.name == "heavy"
    assert event.message == failed.message
    assert failed.message.isprintable()
    assert len(failed.message) < LONGEST_TEXT + 200
    assert not harness.engine.has_work


@pytest.mark.parametrize("on", ["nowhere", "n1"])
def test_pods_placed_by_hand_that_ask_for_more_together_than_an_int64(on: str) -> None:
    """A Deployment whose template names a node: others' pods are bound beside it, and when its pods have gone."""
    harness = cluster()
    resources = {"requests": {"memory": "32Pi"}}
    placed = [pod(f"p{i}", nodeName=on, containers=[{"name": "c", "resources": resources}]) for i in range(300)]
    harness.put(*placed, pod("plain", cpu="10m"))
    assert harness.binds().keys() == {"plain"}
    assert validate(harness.engine.cluster) == []
    for each in placed:
        harness.gone("Pod", each["metadata"]["name"])
    assert validate(harness.engine.cluster) == []
