"""Parts of shapes that were read from equal bytes are read once: requests of one kind, terms of many apps."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.model import pod as pods
from podberth.model import shape as shapes
from podberth.model.kinds import Decoder
from podberth.model.shape import OF_SPEC, OF_TERMS, PodShape, read_spec
from podberth.model.wire import encode
from tests.builders import container, pod

FIELDS = sorted(OF_SPEC | OF_TERMS)
AMOUNTS = (None, "100m", "2", "nonsense")
NEEDS: tuple[list[str], ...] = ([], ["@name in n1"], ["zone in a,b"], ["zone in a", "@name in n2"])
APART: tuple[list[str], ...] = ([], ["app=web per zone"], ["app=web per host", "app=db per zone"])
PREFER: tuple[list[Any], ...] = ([], [(5, "zone=a")], [(1, "@name in n1"), (7, "disk=ssd")])


def told(shape: PodShape) -> dict[str, str]:
    """Each field as text."""
    return {name: repr(getattr(shape, name)) for name in (*FIELDS, "tolerations", "node_selector", "weight")}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(AMOUNTS),
            st.sampled_from((None, "64Mi")),
            st.sampled_from(NEEDS),
            st.sampled_from(APART),
            st.sampled_from(PREFER),
            st.sampled_from(("default", "other")),
            st.booleans(),
            st.sampled_from(((), ("8080",), ("9090/UDP",))),
        ),
        max_size=12,
    )
)
def test_as_read_alone(made: list[tuple[Any, ...]]) -> None:
    """Whatever was read before, a pod is what it would be as the first one."""
    decoder = Decoder()
    for i, (cpu, memory, need, apart, prefer, namespace, bound, ports) in enumerate(made):
        more: dict[str, Any] = {"on": "n1"} if bound else {}
        raw = encode(
            pod(f"p{i}", cpu, memory, namespace=namespace, need=need, apart=apart, prefer=prefer, ports=ports, **more)
        )
        assert told(decoder.pod(raw).shape) == told(Decoder().pod(raw).shape)


def _allocated(name: str, cpu: str) -> dict[str, Any]:
    return {"containerStatuses": [{"name": name, "allocatedResources": {"cpu": cpu}}]}


def _pair(first: str, second: str) -> list[Any]:
    return [container("1", name=first), container("2", name=second)]


_INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(pod("p", "16", on="n", status=_INFEASIBLE), pod("q", "16"), id="a resize that can't be"),
        pytest.param(
            pod("p", containers=_pair("a", "b"), on="n", status=_allocated("a", "3")),
            pod("q", containers=_pair("b", "a"), on="n", status=_allocated("a", "3")),
            id="another container of the name",
        ),
        pytest.param(
            pod("p", containers=_pair("a", "b"), init=[container("4", name="i")], on="n", status=_allocated("i", "9")),
            pod("q", containers=_pair("i", "b"), init=[container("4", name="a")], on="n", status=_allocated("i", "9")),
            id="an init container of the name",
        ),
    ],
)
def test_what_a_kubelet_reports_is_of_one_pod(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Nobody else takes over what it says of one pod's resources."""
    decoder = Decoder()
    for document in (before, after, before):
        raw = encode(document)
        assert told(decoder.pod(raw).shape) == told(Decoder().pod(raw).shape)


def test_what_is_the_same_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods for one node each share their containers, pods of a size each share their terms."""
    read: list[str] = []

    def noted(shape: PodShape, made: Any, count: Any) -> Any:
        read.append(made.metadata.name)
        return read_spec(shape, made, count)

    monkeypatch.setattr(shapes, "read_spec", noted)
    decoder = Decoder()
    of_a_set = [decoder.pod(encode(pod(f"set-{i}", "1", "1Gi", need=[f"@name in n{i}"]))).shape for i in range(5)]
    of_a_size = [decoder.pod(encode(pod(f"size-{i}", f"{i}m", "1Gi", apart=["app=web"]))).shape for i in range(5)]
    assert len({id(shape) for shape in (*of_a_set, *of_a_size)}) == 10
    assert read == ["set-0", *(f"size-{i}" for i in range(5))]
    assert len({id(shape.anti_affinity_terms) for shape in of_a_size}) == 1
    assert [shape.required_node_affinity.names for shape in of_a_set if shape.required_node_affinity] == [
        frozenset({f"n{i}"}) for i in range(5)
    ]


def test_problems_of_containers_stay_their_own() -> None:
    """Equal terms beside a request that can't be read: the pod that has it can't be scheduled, the other can."""
    decoder = Decoder()
    good = decoder.pod(encode(pod("good", "1", need=["zone in a"]))).shape
    bad = decoder.pod(encode(pod("bad", "nonsense", need=["zone in a"]))).shape
    after = decoder.pod(encode(pod("after", "2", need=["zone in a"]))).shape
    assert good.problem is None
    assert after.problem is None
    assert bad.problem is not None
    assert "nonsense" in bad.problem


def test_those_that_lend_are_few_and_small() -> None:
    """As many as are useful, and none that takes much memory."""
    decoder = Decoder()
    for i in range(pods.LENDERS + 10):
        decoder.pod(encode(pod(f"p{i}", f"{i}m", need=[f"@name in n{i}"])))
    lending = decoder.interner.lending
    assert lending <= 2 * pods.LENDERS
    decoder.pod(encode(pod("big", "77m", select={f"k{i}": "x" * 60 for i in range(80)}, need=["@name in other"])))
    assert decoder.interner.lending == lending
