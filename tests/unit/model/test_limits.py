"""A pod beyond a limit says which, and what is left of its terms keeps nobody from a node."""

from typing import Any

import pytest

from podberth.model.annotated import AnnotationsRead
from podberth.model.kinds import Decoder
from podberth.model.limits import Excess, Limits
from podberth.model.pod import Pod
from podberth.model.pod_group import COSCHEDULING_KIND, PodGroup
from podberth.model.storage import PersistentVolumeClaim
from podberth.model.wire import encode
from tests.builders import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
FEW = Limits(
    affinity_terms=3,
    node_terms=3,
    spread_constraints=2,
    selector_requirements=3,
    requirement_values=3,
    values_in_all=20,
    tolerations=2,
    containers=2,
    resources=3,
    host_ports=2,
    volumes=2,
    resource_claims=2,
    annotation_bytes=10,
    labels=3,
)


def _apart(*values: str, requirements: int = 1) -> dict[str, Any]:
    asked = [{"key": f"k{i}", "operator": "In", "values": list(values or "a")} for i in range(requirements)]
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": asked}}


def _nodes(requirements: int = 1, values: int = 1) -> dict[str, Any]:
    some = [f"v{i}" for i in range(values)]
    return {"matchExpressions": [{"key": f"k{i}", "operator": "In", "values": some} for i in range(requirements)]}


def _constraint(**more: Any) -> dict[str, Any]:
    common = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {**common, "labelSelector": {"matchLabels": {"a": "b"}}, **more}


def _container(i: int, **more: Any) -> dict[str, Any]:
    return {"name": f"c{i}", "image": "i", "resources": {"requests": {"cpu": "1"}}, **more}


def _ports(count: int) -> list[dict[str, Any]]:
    return [{"containerPort": i, "hostPort": i} for i in range(1, count + 1)]


def _repelled(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


BEYOND: dict[str, tuple[dict[str, Any], str]] = {
    "terms": (
        {
            "affinity": {
                "podAffinity": {REQUIRED: [_apart()], PREFERRED: [{"weight": 1, "podAffinityTerm": _apart()}]},
                "podAntiAffinity": {REQUIRED: [_apart(), _apart()]},
            }
        },
        "4 affinity terms, at most 3",
    ),
    "requirements": (_repelled(_apart(requirements=4)), "4 requirements in an affinity term, at most 3"),
    "values": (_repelled(_apart("a", "b", "c", "d")), "4 values of k0 in an affinity term, at most 3"),
    "namespaces": (_repelled({**_apart(), "namespaces": list("abcd")}), "4 namespaces in an affinity term, at most 3"),
    "in all": (
        _repelled(*[_apart("a", "b", "c", requirements=2) for _ in range(3)]),
        "24 requirements and values in all terms, at most 20",
    ),
    "node terms": (
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [_nodes(), _nodes()]},
                    PREFERRED: [{"weight": 1, "preference": _nodes()} for _ in range(2)],
                }
            }
        },
        "4 node affinity terms, at most 3",
    ),
    "a node term": (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [_nodes(values=4)]}}}},
        "4 values of k0 in a node term, at most 3",
    ),
    "node selector": (
        {"nodeSelector": {f"k{i}": "v" for i in range(4)}},
        "4 labels in spec.nodeSelector, at most 3",
    ),
    "spread": (
        {"topologySpreadConstraints": [_constraint(topologyKey=f"k{i}") for i in range(3)]},
        "3 topology spread constraints, at most 2",
    ),
    "keys of spread": (
        {"topologySpreadConstraints": [_constraint(matchLabelKeys=list("xyz"))]},
        "4 requirements in a topology spread constraint, at most 3",
    ),
    "tolerations": ({"tolerations": [{"key": f"k{i}"} for i in range(3)]}, "3 tolerations, at most 2"),
    "containers": (
        {"initContainers": [_container(9)], "containers": [_container(0), _container(1)]},
        "3 containers, at most 2",
    ),
    "resources": (
        {"containers": [_container(0, resources={"requests": {f"example.com/r{i}": "1" for i in range(4)}})]},
        "4 resources requested, at most 3",
    ),
    "host ports": ({"containers": [_container(0, ports=_ports(3))]}, "3 host ports, at most 2"),
    "volumes": ({"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(3)]}, "3 volumes, at most 2"),
    "claims": (
        {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": f"c{i}"} for i in range(3)]},
        "3 resource claims, at most 2",
    ),
}


def _read(spec: dict[str, Any], limits: Limits = FEW, **how: Any) -> Pod:
    made = pod("p", uid="p", **how)
    made["spec"] |= spec
    return Decoder(limits=limits).pod(encode(made))


@pytest.mark.parametrize("what", BEYOND)
def test_a_pod_beyond_a_limit_says_which(what: str) -> None:
    """And one that is within it says nothing: the usual limits are far above these."""
    spec, says = BEYOND[what]
    found = _read(spec).too_large
    assert found is not None
    assert str(found) == f"too large for this scheduler: {says}"
    assert _read(spec, Limits()).too_large is None


def test_what_is_at_a_limit_is_within_it() -> None:
    """As many as are allowed of everything."""
    spec = {
        **_repelled(_apart("a"), _apart("b"), _apart("c")),
        "nodeSelector": {f"k{i}": "v" for i in range(3)},
        "topologySpreadConstraints": [_constraint(topologyKey=f"k{i}") for i in range(2)],
        "tolerations": [{"key": f"k{i}"} for i in range(2)],
        "containers": [_container(i, ports=_ports(1)) for i in range(2)],
        "volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(2)],
        "resourceClaims": [{"name": f"c{i}", "resourceClaimName": f"c{i}"} for i in range(2)],
    }
    found = _read(spec, labels={f"k{i}": "v" for i in range(3)})
    assert found.too_large is None
    assert len(found.shape.anti_affinity_terms) == 3


def test_too_many_labels() -> None:
    """The first ones count, by their keys."""
    found = _read({}, labels={f"k{i}": "v" for i in range(5)})
    assert found.too_large == Excess("labels", "too large for this scheduler: 5 labels, at most 3")
    assert found.labels == {"k0": "v", "k1": "v", "k2": "v"}


@pytest.mark.parametrize("numbers", [(1, 3), (3, 1)])
def test_the_number_of_volumes_is_each_pods_own(numbers: tuple[int, int]) -> None:
    """Of pods that differ in nothing else that decides, whichever is read first."""
    decoder = Decoder(limits=FEW)
    for number in numbers:
        made = pod("p")
        made["spec"]["volumes"] = [{"name": f"v{i}", "emptyDir": {}} for i in range(number)]
        assert (decoder.pod(encode(made)).too_large is not None) == (number > FEW.volumes)


def test_annotations_that_plugins_read() -> None:
    """All of them together; those that nobody reads do not count, however long they are."""
    read = AnnotationsRead(of_pods=frozenset(("a/x", "a/y")))
    for value, told in (
        ("12345", None),
        ("123456", "too large for this scheduler: 12 characters of annotations that plugins read, at most 10"),
    ):
        made = pod("p")
        made["metadata"]["annotations"] = {"a/x": value, "a/y": value, "a/z": 100 * "z"}
        found = Decoder(read, limits=FEW).pod(encode(made))
        assert (found.too_large and found.too_large.text) == told
        assert found.annotations == ({} if told else {"a/x": value, "a/y": value})


def test_all_requests_count_and_terms_within_the_limits_do() -> None:
    """What another scheduler has placed takes its room; a term that is cut would select others than it says."""
    spec = {
        **_repelled(_apart("a"), _apart("a", "b", "c", "d"), _apart("b"), _apart("c")),
        "containers": [_container(i) for i in range(5)],
    }
    found = _read({**spec, "nodeName": "n"})
    assert found.shape.requests["cpu"] == 5_000
    assert [str(term.selector) for term in found.shape.anti_affinity_terms] == ["k0 in (a)", "k0 in (b)"]


def test_a_selector_of_a_budget_beyond_the_limits_selects_more() -> None:
    """So that it protects what it says, and more."""
    labels = {f"k{i}": "v" for i in range(8)}
    document = {
        "metadata": {"name": "b", "namespace": "default", "uid": "b"},
        "spec": {"selector": {"matchLabels": labels}},
    }
    found = Decoder(limits=FEW).of_kind("PodDisruptionBudget")(encode(document))
    assert getattr(found, "problem", "") == ("too large for this scheduler: 8 requirements in spec.selector, at most 3")
    assert found.selector.matches(labels)  # type: ignore[union-attr]
    assert not found.selector.matches({})  # type: ignore[union-attr]


def test_a_claims_selector_beyond_the_limits_is_a_mistake() -> None:
    """One that selected more than it says would be given any volume."""
    document = {
        "metadata": {"name": "c", "namespace": "default", "uid": "c"},
        "spec": {"selector": {"matchLabels": {f"k{i}": "v" for i in range(4)}}},
    }
    found = Decoder(limits=FEW).of_kind("PersistentVolumeClaim")(encode(document))
    assert isinstance(found, PersistentVolumeClaim)
    assert found.problem == "too large for this scheduler: 4 requirements in spec.selector, at most 3"


def test_names_of_resources_that_a_group_needs() -> None:
    """By the limit that the configuration says."""
    document = {
        "metadata": {"name": "g", "namespace": "default", "uid": "g"},
        "spec": {"minMember": 2, "minResources": {f"example.com/r{i}": "1" for i in range(4)}},
    }
    found = Decoder(limits=FEW).of_kind(COSCHEDULING_KIND)(encode(document))
    assert isinstance(found, PodGroup)
    assert found.too_large == "too large for this scheduler: 4 resources in minResources, at most 3"
    within = Decoder().of_kind(COSCHEDULING_KIND)(encode(document))
    assert isinstance(within, PodGroup)
    assert within.too_large is None
