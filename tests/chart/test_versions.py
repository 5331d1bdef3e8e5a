"""The chart's objects by the oldest supported version's OpenAPI document (`make chart-versions` has the others)."""

from __future__ import annotations

import copy

import pytest

from tests.chart.rendering import CHART, Chart, Object, documents
from tests.chart.test_values import EVERYTHING
from tests.chart.versions import VERSIONS, Api, swagger
from tests.controlplane.golang import UnreachableError


@pytest.fixture(scope="module")
def oldest(helm: object) -> Api:
    """Its kinds."""
    try:
        return Api(swagger(VERSIONS[0]))
    except UnreachableError as error:
        pytest.skip(f"the OpenAPI document is out of reach: {error}")


def test_oldest_is_what_the_chart_says() -> None:
    """Helm refuses what is older."""
    (about,) = documents((CHART / "Chart.yaml").read_text())
    assert about["kubeVersion"] == f">={VERSIONS[0]}-0"


def test_valid(chart: Chart, oldest: Api) -> None:
    """Every object is valid there, with everything switched on."""
    objects = [one for one in chart.objects(EVERYTHING) if one["kind"] not in FOREIGN]
    assert [error for one in objects for error in oldest.errors(one)] == []


FOREIGN = {"Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"}

POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
WRONG: list[tuple[str, Object, str]] = [
    ("unknown", {"container": []}, "Pod a.spec.container: unknown"),
    ("type", {"priority": "high"}, "Pod a.spec.priority: 'high' is no integer"),
    ("required", {"containers": [{}]}, "Pod a.spec.containers[0].name: required"),
    ("null", {"tolerations": None}, "Pod a.spec.tolerations: None is no array"),
    ("map", {"nodeSelector": {"a": 1}}, "Pod a.spec.nodeSelector.a: 1 is no string"),
]


@pytest.mark.parametrize(("change", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_it_can_fail(oldest: Api, change: Object, said: str) -> None:
    """A wrong pod is told from a right one."""
    assert list(oldest.errors(POD)) == []
    wrong = copy.deepcopy(POD)
    wrong["spec"] |= change
    assert said in list(oldest.errors(wrong))
