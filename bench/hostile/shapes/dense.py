"""As many of one thing as the API server takes, each as short as may be: what is counted is never its bytes.

It takes half a minute for 100,000 labels, as its work grows with their square, and gives up after 34 seconds. So these
are what it takes within seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.hostile.scenario import Scenario, Write, one, put
from bench.hostile.shapes.claims import claim, using
from bench.hostile.shapes.selecting import service
from bench.hostile.shapes.terms import spec_of
from bench.hostile.town import PREFERRED, REQUIRED, TENANT, Object, namespace, pod


def _label(i: int) -> str:
    """The i-th of the shortest names: digits and letters."""
    return f"{i:x}"


def _empty(count: int) -> dict[str, str]:
    return {_label(i): "" for i in range(count)}


def _labels(count: int) -> Object:
    return pod("worst", TENANT, _empty(count))


def _bound(made: Object) -> Object:
    made["spec"]["nodeName"] = "node-1"
    return made


def _apart(count: int) -> Object:
    terms = [{"topologyKey": _label(i)} for i in range(count)]
    return spec_of({"affinity": {"podAntiAffinity": {REQUIRED: terms}}})


def _near(count: int) -> Object:
    terms = [{"topologyKey": _label(i)} for i in range(count)]
    return spec_of({"affinity": {"podAffinity": {REQUIRED: terms}}})


def _node_terms(count: int) -> Object:
    terms = [{"matchExpressions": [{"key": _label(i), "operator": "Exists"}]} for i in range(count)]
    return spec_of({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})


def _node_preferred(count: int) -> Object:
    terms = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": _label(i), "operator": "Exists"}]}}
        for i in range(count)
    ]
    return spec_of({"affinity": {"nodeAffinity": {PREFERRED: terms}}})


def _spread(count: int) -> Object:
    constraints = [
        {"maxSkew": 1, "topologyKey": _label(i), "whenUnsatisfiable": "ScheduleAnyway"} for i in range(count)
    ]
    return spec_of({"topologySpreadConstraints": constraints})


def _match_keys(count: int) -> Object:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "worst"}},
        "matchLabelKeys": [_label(i) for i in range(count)],
    }
    made = spec_of({"topologySpreadConstraints": [constraint]})
    made["metadata"]["labels"] = _empty(count)
    return made


def _requests(count: int) -> Object:
    amounts = {f"a.b/{_label(i)}": "1" for i in range(count)}
    return spec_of({"containers": [{"name": "c", "image": "a", "resources": {"requests": amounts, "limits": amounts}}]})


def _volumes(count: int) -> Object:
    return spec_of({"volumes": [{"name": f"v{_label(i)}", "emptyDir": {}} for i in range(count)]})


def _claims(count: int) -> Object:
    return spec_of(
        {"volumes": [{"name": _label(i), "persistentVolumeClaim": {"claimName": _label(i)}} for i in range(count)]}
    )


_SHAPES = (
    ("labels", "labels", lambda: _labels(30_000)),
    (
        "node-selector",
        "labels of a nodeSelector",
        lambda: spec_of({"nodeSelector": {_label(i): "" for i in range(100_000)}}),
    ),
    ("tolerations", "tolerations", lambda: spec_of({"tolerations": [{"key": _label(i)} for i in range(25_000)]})),
    ("gates", "scheduling gates", lambda: spec_of({"schedulingGates": [{"name": _label(i)} for i in range(30_000)]})),
    ("anti", "required anti-affinity terms without a selector", lambda: _apart(50_000)),
    ("affinity", "required affinity terms without a selector", lambda: _near(50_000)),
    ("node-terms", "node selector terms", lambda: _node_terms(20_000)),
    ("node-preferred", "preferred node terms", lambda: _node_preferred(14_000)),
    ("spread", "spread constraints without a selector", lambda: _spread(16_000)),
    ("match-label-keys", "matchLabelKeys of one constraint", lambda: _match_keys(15_000)),
    ("requests", "resources", lambda: _requests(20_000)),
    ("volumes", "empty volumes", lambda: _volumes(20_000)),
    ("claims", "claims", lambda: _claims(15_000)),
)


def _selected(kind: str) -> Iterator[Write]:
    """A set or budget that selects by 25,000 labels, and a pod that has them."""
    metadata = {"name": "dense", "namespace": TENANT, "uid": f"dense-{kind}"}
    version = "policy/v1" if kind == "PodDisruptionBudget" else "apps/v1"
    spec: Object = {"selector": {"matchLabels": _empty(25_000)}}
    if kind == "PodDisruptionBudget":
        spec["minAvailable"] = 1
    else:
        containers = [{"name": "c", "image": "a"}]
        spec["template"] = {"metadata": {"labels": _empty(25_000)}, "spec": {"containers": containers}}
    made = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    yield put(made)
    chosen = _labels(25_000)
    chosen["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": "dense", "uid": f"dense-{kind}", "controller": True}
    ]
    yield put(chosen, 50)
    yield put(_bound(_labels(25_000)), 50)


def _budget(nodes: int) -> Iterator[Write]:
    return _selected("PodDisruptionBudget")


def _of_kind(kind: str, nodes: int) -> Iterator[Write]:
    return _selected(kind)


def _served() -> Iterator[Write]:
    yield put(service(0, _empty(25_000)))
    yield put(_labels(25_000), 50)


def _claimed() -> Iterator[Write]:
    claimed = claim(0)
    claimed["metadata"]["labels"] = _empty(25_000)
    yield put(claimed)
    yield put(using("worst", range(1)), 50)


def _in_a_namespace(nodes: int) -> Iterator[Write]:
    """The tenant's namespace has 25,000 labels, other ones a moment later."""
    yield put(namespace(TENANT, **_empty(25_000)))
    yield put(namespace(TENANT, **{f"x{key}": "" for key in _empty(25_000)}), 50)


SCENARIOS = [
    *(
        Scenario(f"dense-{name}{suffix}", "Pod", f"{shape}, as many as the API server takes{more}", one(make))
        for name, shape, build in _SHAPES
        for suffix, more, make in (
            ("", "", build),
            ("-placed", ", on a node", lambda build=build: _bound(build())),
        )
        if (name, suffix) != ("gates", "-placed")  # such a pod is refused
    ),
    Scenario("dense-budget", "PodDisruptionBudget", "a budget of 25,000 labels and a pod", _budget, 3),
    Scenario("dense-service", "Service", "a Service of 25,000 labels and a pod that has them", lambda _: _served(), 2),
    Scenario("dense-claim", "PersistentVolumeClaim", "25,000 labels of a claim and a pod", lambda _: _claimed(), 2),
    Scenario("dense-namespace", "Namespace", "25,000 labels of a namespace, then others", _in_a_namespace, 2),
    *(
        Scenario(f"dense-{kind.lower()}", kind, "a set of 25,000 labels and its pods", partial(_of_kind, kind), 3)
        for kind in ("ReplicaSet", "StatefulSet")
    ),
]
