"""What a pod asks for; wants computed by component-helpers v0.37.0 and kube-scheduler's CalculateResource."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.model import resources, wire
from podberth.model.kinds import Decoder
from podberth.model.quantity import parse_nano
from podberth.model.resources import (
    ContainerRequests,
    PodResources,
    in_units,
    is_extended,
    is_pod_level,
    is_scalar,
    nonzero_requests,
    pod_requests,
    scoring_requests,
)
from podberth.model.shape import PodShape
from tests.builders import container, node, pod

MI = 1 << 20


def shape(document: dict[str, Any]) -> PodShape:
    return Decoder().pod(wire.encode(document)).shape


def reported(cpu: str | None = None, actual: str | None = None, *, reason: str | None = None, **pod_level: Any) -> Any:
    """A status in which the kubelet allocated `cpu` and runs with `actual`."""
    found: dict[str, Any] = {"name": "main"}
    if cpu:
        found["allocatedResources"] = {"cpu": cpu}
    if actual:
        found["resources"] = {"requests": {"cpu": actual}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    return {"containerStatuses": [found], "conditions": conditions} | pod_level


CASES: list[tuple[str, dict[str, Any], dict[str, int], tuple[int, int]]] = [
    ("nothing", pod("p"), {}, (100, 200 * MI)),
    ("zero is asked for", pod("p", cpu="0", memory="0"), {"cpu": 0, "memory": 0}, (0, 0)),
    ("one of the two", pod("p", cpu="1"), {"cpu": 1000}, (1000, 200 * MI)),
    ("finer than milli", pod("p", cpu="0.0015"), {"cpu": 2}, (2, 200 * MI)),
    (
        "rounded once, after the sum",
        pod("p", containers=[container("0.0004", name="a"), container("0.0004", name="b")]),
        {"cpu": 1},
        (1, 400 * MI),
    ),
    (
        "containers are summed",
        pod("p", containers=[container("1", "1Mi", name="a"), container("500m", name="b")]),
        {"cpu": 1500, "memory": MI},
        (1500, 201 * MI),
    ),
    (
        "the largest init container counts",
        pod("p", containers=[container("1")], init=[container("3", name="i"), container("2", name="j")]),
        {"cpu": 3000},
        (3000, 200 * MI),
    ),
    (
        "sidecars run beside what follows",
        pod(
            "p",
            containers=[container("1")],
            init=[container("500m", name="s", sidecar=True), container("2", name="i")],
        ),
        {"cpu": 2500},
        (2500, 400 * MI),
    ),
    (
        "sidecars that start later do not",
        pod(
            "p",
            containers=[container("1")],
            init=[container("2", name="i"), container("500m", name="s", sidecar=True)],
        ),
        {"cpu": 2000},
        (2000, 400 * MI),
    ),
    (
        "overhead comes on top",
        pod("p", cpu="1", overhead={"cpu": "250m", "memory": "1Mi"}),
        {"cpu": 1250, "memory": MI},
        (1250, 201 * MI),
    ),
    (
        "pod level replaces the sum",
        pod("p", cpu="1", memory="1Mi", level={"cpu": "3"}, overhead={"cpu": "1"}),
        {"cpu": 4000, "memory": MI},
        (4000, MI),
    ),
    (
        "pod level knows no other resources",
        pod("p", cpu="1", level={"example.com/gpu": "1"}),
        {"cpu": 1000},
        (1000, 200 * MI),
    ),
    (
        "other resources",
        pod("p", others={"example.com/gpu": "1", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi", "pods": "5"}),
        {"example.com/gpu": 1, "hugepages-2Mi": 4 * MI, "ephemeral-storage": 1 << 30},
        (100, 200 * MI),
    ),
    (
        "a resize counts the largest of the three",
        pod("p", cpu="1", status=reported("2", "3"), on="n"),
        {"cpu": 3000},
        (3000, 200 * MI),
    ),
    (
        "an infeasible resize does not count what is wished for",
        pod("p", cpu="8", status=reported("2", "3", reason="Infeasible"), on="n"),
        {"cpu": 3000},
        (3000, 200 * MI),
    ),
    (
        "a deferred one does",
        pod("p", cpu="8", status=reported("2", "3", reason="Deferred"), on="n"),
        {"cpu": 8000},
        (8000, 200 * MI),
    ),
    (
        "totals of the pod's status stand for its containers'",
        pod(
            "p",
            cpu="1",
            status=reported("7", allocatedResources={"cpu": "2"}, resources={"requests": {"cpu": "3"}}),
            on="n",
        ),
        {"cpu": 3000},
        (3000, 200 * MI),
    ),
    (
        "pod level with limits only in the status",
        pod(
            "p", level={"cpu": "1"}, status=reported(allocatedResources={"cpu": "3"}, resources={"limits": {}}), on="n"
        ),
        {"cpu": 3000},
        (3000, 200 * MI),
    ),
]


@pytest.mark.parametrize(("document", "requests", "nonzero"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_requests(document: dict[str, Any], requests: dict[str, int], nonzero: tuple[int, int]) -> None:
    """What filtering counts, and what the placed pod adds to its node for scoring."""
    found = shape(document)
    assert found.requests == requests
    assert found.nonzero == nonzero


@pytest.mark.parametrize(
    ("document", "scoring"),
    [
        (pod("p"), {"cpu": 100, "memory": 200 * MI}),
        (pod("p", cpu="0"), {"cpu": 0, "memory": 200 * MI}),
        (pod("p", level={"cpu": "3"}), {"cpu": 100, "memory": 200 * MI}),
        (
            pod("p", containers=[container("1", name="a"), container(memory="1Mi", name="b")]),
            {"cpu": 1100, "memory": 201 * MI},
        ),
    ],
)
def test_scoring_requests(document: dict[str, Any], scoring: dict[str, int]) -> None:
    """NodeResourcesFit scores with defaults per container and, as upstream does, past pod-level resources."""
    assert shape(document).scoring == scoring


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("cpu", False, False),
        ("pods", False, False),
        ("example.com/gpu", True, True),
        ("gpu", False, False),
        ("requests.example.com/gpu", False, False),
        ("a.kubernetes.io/x", True, False),
        ("kubernetes.io/x", True, False),
        ("hugepages-2Mi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("-bad.com/gpu", False, False),
        ("a/b/c", False, False),
    ],
)
def test_kinds_of_resources(name: str, scalar: bool, extended: bool) -> None:
    """IsScalarResourceName and IsExtendedResourceName."""
    assert (is_scalar(name), is_extended(name)) == (scalar, extended)


@pytest.mark.parametrize(("name", "may"), [("cpu", True), ("hugepages-1Gi", True), ("ephemeral-storage", False)])
def test_pod_level_resources(name: str, may: bool) -> None:
    """Only cpu, memory and huge pages may be asked for by the pod as a whole."""
    assert is_pod_level(name) is may


def test_an_unreadable_request_keeps_the_pod_from_being_placed() -> None:
    """It is named with its path; nothing raises."""
    found = shape(pod("p", cpu="lots"))
    assert found.problem is not None
    assert found.problem.startswith('spec.containers[0].resources.requests[cpu]: Invalid value: "lots"')


def test_an_absurd_amount_of_a_node_is_marked_and_bounded() -> None:
    """A node that reports nonsense takes part with the rest of what it says."""
    found = Decoder().node(wire.encode(node("n", cpu="1e30", memory="many")))
    assert found.allocatable["cpu"] == 1 << 55
    assert "memory" not in found.allocatable
    assert [problem.split(":")[0] for problem in found.problems] == [
        "status.allocatable[cpu]",
        "status.allocatable[memory]",
    ]


def test_thousands_of_init_containers_cost_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a resource of its own: every one is looked at a few times, not together with all before it."""
    compared = []
    plain = resources.raise_to

    def counted(into: Any, other: Any) -> None:
        compared.append(len(other))
        plain(into, other)

    monkeypatch.setattr(resources, "raise_to", counted)
    names = [f"example.com/r{i}" for i in range(2000)]
    init = [container(name=f"c{i}", others={name: "1"}, sidecar=i % 2 == 0) for i, name in enumerate(names)]
    found = shape(pod("p", init=init))
    assert found.requests == dict.fromkeys(names, 1)
    assert sum(compared) < 40 * len(names)


@pytest.mark.parametrize(
    ("init", "requests"),
    [
        ([("s", "a", 2), ("i", "a", 3), ("s", "a", 1)], {"a": 5}),
        ([("i", "a", 3), ("s", "a", 2), ("i", "b", 1)], {"a": 3, "b": 1}),
        ([("s", "a", 2), ("s", "b", 2), ("i", "b", 4)], {"a": 2, "b": 6}),
    ],
)
def test_init_containers_beside_sidecars(init: list[tuple[str, str, int]], requests: dict[str, int]) -> None:
    """An init container runs beside the sidecars before it, of other resources too."""
    made = [
        container(name=f"c{i}", others={f"example.com/{what}": str(amount)}, sidecar=kind == "s")
        for i, (kind, what, amount) in enumerate(init)
    ]
    assert shape(pod("p", init=made)).requests == {f"example.com/{what}": n for what, n in requests.items()}


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(["cpu", "memory", "a/1", "a/2", "a/70"]), st.integers(0, 3)), st.booleans()
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 4),
    st.booleans(),
)
def test_of_many_resources_the_sums_are_the_same(asked: list[Any], initial: int, overhead: bool) -> None:
    """What is assumed for scoring does not depend on how many other resources there are."""
    many = {f"b/{i}": parse_nano("1") for i in range(100)}

    def made(more: dict[str, int]) -> PodResources:
        all_of_them = [
            ContainerRequests({name: parse_nano(str(amount)) for name, amount in one.items()} | more, sidecar=sidecar)
            for one, sidecar in asked
        ]
        extra = {"cpu": parse_nano("1m"), "a/1": parse_nano("1")} if overhead else {}
        return PodResources(all_of_them[initial:], all_of_them[:initial], overhead=extra)

    few, all_ = made({}), made(many)
    sums = [pod_requests(one, with_status=True) for one in (few, all_)]
    assert {name: amount for name, amount in sums[1].items() if name not in many} == sums[0]
    assert nonzero_requests(few, sums[0]) == nonzero_requests(all_, sums[1])
    scoring = [scoring_requests(one, in_units(nano)) for one, nano in zip((few, all_), sums, strict=True)]
    assert {name: amount for name, amount in scoring[1].items() if name not in many} == scoring[0]
    assert {name: scoring[1][name] for name in many} == {name: in_units(sums[1])[name] for name in many}


@given(
    st.lists(
        st.tuples(
            st.fixed_dictionaries({}, optional={name: st.integers(0, 3) for name in ("cpu", "memory", "a/1")}),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 4),
    st.fixed_dictionaries({}, optional={"cpu": st.integers(1, 2)}),
    st.fixed_dictionaries({}, optional={"memory": st.integers(1, 2)}),
)
def test_where_all_is_said_nothing_is_assumed(
    asked: list[Any], initial: int, overhead: dict[str, int], level: dict[str, int]
) -> None:
    """What is added up once there is what it comes to with the defaults for whatever is not said."""

    def nano(amounts: dict[str, int]) -> dict[str, int]:
        return {name: parse_nano(str(amount)) for name, amount in amounts.items()}

    each = [ContainerRequests(nano(one), sidecar=sidecar) for one, sidecar in asked]
    made = PodResources(each[initial:], each[:initial], pod_level=nano(level), overhead=nano(overhead))
    defaults = {"cpu": parse_nano("100m"), "memory": parse_nano("200Mi")}
    plain = PodResources(each[initial:], each[:initial], overhead=nano(overhead))
    said = pod_requests(made, with_status=True)
    assert scoring_requests(made, in_units(said)) == in_units(pod_requests(plain, missing=defaults))
    if not level:
        assumed = in_units(pod_requests(plain, missing=defaults))
        assert nonzero_requests(made, said) == (assumed.get("cpu", 0), assumed.get("memory", 0))
    assert made.says_all == (
        bool(made.containers) and not level and all({"cpu", "memory"} <= one.keys() for one, _ in asked)
    )
