"""QoS classes against the real Go functions.

qos.jsonl: pods by a seeded generator (record_qos.py makes and checks it); `computed` is ComputePodQOS of
k8s.io/kubernetes v1.37.0 on the pod as written, `stored` what the pod strategy's PrepareForCreate put into
status.qosClass, `seen` the pod as a webhook sees it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from podberth.model.quantity import QuantityError
from podberth.policy.qos import Resources, compute, qos_class
from podberth.policy.qos import _resources as resources

CASES = [json.loads(line) for line in (Path(__file__).parent / "qos.jsonl").read_text().splitlines()]


def test_class_that_the_api_server_stores() -> None:
    """A manifest and what a webhook sees of it both get the class that is stored."""
    for case in CASES:
        for spec in (case["spec"], case.get("seen", case["spec"])):
            assert qos_class({"spec": spec}) == case["stored"], case


def test_function_itself() -> None:
    """ComputePodQOS on pods as written."""
    for case in CASES:
        spec = case["spec"]
        level: Resources | None = resources(spec["resources"]) if "resources" in spec else None
        containers = [resources(one.get("resources")) for one in (*spec.get("initContainers", ()), *spec["containers"])]
        assert compute(level, containers) == case["computed"], case


@pytest.mark.parametrize(
    ("asked", "found"), [(1, "Guaranteed"), ("1", "Guaranteed"), (-1, "Burstable"), ("-1", "Burstable")]
)
def test_less_than_nothing_is_not_as_much_as_more(asked: int | str, found: str) -> None:
    """resourceQOS compares amounts as they are; a webhook sees pods before the API server refuses them."""
    resources = {"requests": {"cpu": asked, "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1Gi"}}
    assert qos_class({"spec": {"containers": [{"resources": resources}]}}) == found


@pytest.mark.parametrize(
    ("request_", "limit", "found"),
    [
        ("0.5m", "1m", "Guaranteed"),
        ("1.1m", "2m", "Guaranteed"),
        ("1m", "1.1m", "Burstable"),
        ("-0.5m", "-1m", "Guaranteed"),
        ("0", "0.1m", "Burstable"),
    ],
)
def test_amounts_are_rounded_up_to_thousandths(request_: str, limit: str, found: str) -> None:
    """Before they are compared (SetDefaults_ResourceList); away from zero, as Quantity.RoundUp has it."""
    resources = {"requests": {"cpu": request_, "memory": "1Gi"}, "limits": {"cpu": limit, "memory": "1Gi"}}
    assert qos_class({"spec": {"containers": [{"resources": resources}]}}) == found


def test_cases_are_telling() -> None:
    """The data has every class often enough, sidecars, pod-level resources, and cases that defaulting decides."""
    classes = Counter(case["stored"] for case in CASES)
    assert len(CASES) >= 300
    assert all(classes[name] >= 15 for name in ("Guaranteed", "Burstable", "BestEffort"))
    assert sum(case["stored"] != case["computed"] for case in CASES) >= 50
    assert sum("resources" in case["spec"] for case in CASES) >= 50
    assert sum(one.get("restartPolicy") == "Always" for case in CASES for one in case["spec"].get("initContainers", ()))


@pytest.mark.parametrize(
    "pod", [{}, {"spec": None}, {"spec": {"containers": None}}, {"spec": {"containers": [None, 3]}}], ids=str
)
def test_hardly_a_pod(pod: dict[str, object]) -> None:
    """Without containers a pod is BestEffort, as upstream."""
    assert qos_class(pod) == "BestEffort"


def test_an_amount_that_is_null_is_nothing() -> None:
    """As an API server decodes it."""
    assert qos_class({"spec": {"containers": [{"resources": {"requests": {"cpu": None}}}]}}) == "BestEffort"


@pytest.mark.parametrize("amount", ["much", True, [], "1 "])
def test_no_quantity(amount: object) -> None:
    """What is no quantity raises."""
    with pytest.raises(QuantityError, match="is not a quantity"):
        qos_class({"spec": {"containers": [{"resources": {"limits": {"cpu": amount}}}]}})
