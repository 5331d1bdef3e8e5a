"""Pods of one shape that find the same nodes are alike; those of which one may go where another may not are not."""

from collections.abc import Mapping
from typing import Any

import pytest

from podberth.explain.alike import likeness
from podberth.explain.objects.world import World
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.plugins.registry import IN_TREE
from tests import devices, storage
from tests.builders import Object, configuration, node, pod, profile
from tests.unit.explain.story import world

NODES = [node("a", labels={"rack": "1"}), node("b", labels={"rack": "2"})]
LIST: Object = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}


def spread(made: Object, labels: Mapping[str, str], **more: Any) -> Object:
    """The pod, spread with those that have some labels."""
    made["spec"]["topologySpreadConstraints"] = [{**LIST, "labelSelector": {"matchLabels": dict(labels)}, **more}]
    return made


def scratch(name: str) -> Object:
    """A pod with a claim of its own for a volume."""
    return storage.using(pod(name), "+scratch")


def gpu(name: str) -> Object:
    """A pod for which a claim was made from a template."""
    made = devices.templated(pod(name), "t")
    made["status"]["resourceClaimStatuses"] = [{"name": "t", "resourceClaimName": f"{name}-t"}]
    return made


def made_for(name: str, *results: Object) -> Object:
    """The claim that was made for that pod, with the devices that it holds."""
    status = devices.allocated(*results, node="a") if results else {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"default/{name}", "controller": True}
    return devices.claim(f"{name}-t", status=status, meta={"ownerReferences": [owner]})


def both(one: str, other: str, **more: Any) -> list[Object]:
    """Two pods that differ in their labels."""
    return [pod("one", labels={"app": one}, **more), pod("other", labels={"app": other}, **more)]


FIRST = both("web", "job", near=["app=web per host"])
REPELLED = both("web", "job")
PLACED = [pod("db", on="a", apart=["app=web per host"])]
SPREAD = [spread(each, {"app": "web"}) for each in both("web", "job")]
OF_EACH = [spread(each, {"tier": "x"}, matchLabelKeys=["app"]) for each in both("web", "job")]
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}},
}
BY_DEFAULT: Object = {"defaultingType": "List", "defaultConstraints": [LIST]}
HOME: Object = {"multiPoint": {"enabled": [{"name": "ServiceAffinity"}]}}


@pytest.fixture
def usual() -> Framework:
    """The default profile."""
    return build(decode(configuration(profile())), IN_TREE)["berth"]


def same(framework: Framework, there: World) -> bool:
    """Whether the two pods that wait have one shape, and one key."""
    one, other = there.waiting.values()
    assert one.shape is other.shape
    return likeness(one, framework, there.cluster) == likeness(other, framework, there.cluster)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([*both("web", "job")], True, id="labels that nothing selects"),
        pytest.param([*REPELLED, *PLACED], False, id="one is kept away by a placed pod"),
        pytest.param([*both("x", "job"), *PLACED], True, id="neither is kept away"),
        pytest.param(FIRST, False, id="one may be the first of its kind"),
        pytest.param(both("web", "job", apart=["app=web per host"]), True, id="own terms select placed pods only"),
        pytest.param(SPREAD, False, id="one counts in its own spread"),
        pytest.param(OF_EACH, False, id="each is spread with its like"),
        pytest.param([scratch("one"), scratch("other")], True, id="claims for volumes are still to be made"),
        pytest.param(
            [
                scratch("one"),
                scratch("other"),
                *(storage.claim(f"{name}-scratch", owner=f"default/{name}") for name in ("one", "other")),
            ],
            True,
            id="claims for volumes differ in their names",
        ),
        pytest.param(
            [scratch("one"), scratch("other"), storage.claim("one-scratch", owner="default/one")],
            False,
            id="one has its claim for a volume",
        ),
        pytest.param(
            [
                scratch("one"),
                scratch("other"),
                storage.claim("one-scratch", owner="default/one"),
                storage.claim("other-scratch", owner="default/somebody"),
            ],
            False,
            id="the claim of one is another's",
        ),
        pytest.param([gpu("one"), gpu("other"), made_for("one"), made_for("other")], True, id="claims for devices"),
        pytest.param([gpu("one"), gpu("other"), made_for("one")], False, id="one has its claim for devices"),
        pytest.param(
            [gpu("one"), gpu("other"), made_for("one", devices.result("d", "a")), made_for("other")],
            False,
            id="one has its devices",
        ),
    ],
)
def test_one_stands_for_the_other(usual: Framework, objects: list[Object], want: bool) -> None:
    assert same(usual, world([*NODES, *objects])) is want


@pytest.mark.parametrize(
    ("arguments", "objects", "want"),
    [
        pytest.param({"PodTopologySpread": BY_DEFAULT}, [SERVICE], False, id="a spread by default"),
        pytest.param({"ServiceAffinity": {"affinityLabels": ["rack"]}}, [SERVICE], True, id="nobody at home"),
        pytest.param(
            {"ServiceAffinity": {"affinityLabels": ["rack"]}},
            [SERVICE, pod("web-0", labels={"app": "web"}, on="a")],
            False,
            id="a service's home",
        ),
    ],
)
def test_what_a_profile_goes_by(arguments: dict[str, Any], objects: list[Object], want: bool) -> None:
    """Only where it is asked for."""
    plugins = HOME if "ServiceAffinity" in arguments else None
    framework = build(decode(configuration(profile(plugins=plugins, **arguments))), IN_TREE)["berth"]
    assert same(framework, world([*NODES, *both("web", "job"), *objects])) is want
