"""Each change that is offered for devices frees the pod when it is carried out."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.cache.validate import validate
from podberth.explain.changes import (
    AddNode,
    Change,
    MovePod,
    Request,
)
from podberth.explain.explanation import FITS, Explanation, Remedy
from podberth.explain.simulate.removable import removals
from tests.builders import Object, node, pod
from tests.devices import (
    allocated,
    asks,
    claim,
    claiming,
    device,
    device_class,
    first_of,
    request,
    resource_slice,
    result,
    taint_rule,
    templated,
)
from tests.unit.explain.plugins.offers import users
from tests.unit.explain.story import explained, framework, world

GPU = device_class("gpu", 'device.driver == "gpu.test"')
LARGE = device_class("large", 'device.driver == "gpu.test" && device.attributes["gpu.test"].large')
SMALL = device("d0", large=False, model="L4")
BIG = device("d0", large=True, model="H100")
SICK = {"key": "sick", "value": "ecc", "effect": "NoSchedule"}
BAD = {"key": "bad", "value": "fan", "effect": "NoSchedule"}
ANY = {"key": "any", "operator": "Exists"}
SIX = [device(f"d{i}") for i in range(6)]
SETS = [{"name": "s", "counters": {"slots": {"value": "2"}}}]
SHARED = {"_allowMultipleAllocations": True}
POLICY = {"default": "1Gi", "validRange": {"min": "1Gi"}}
MODEL = 'device.attributes["gpu.test"].model'


def uses(slots: int) -> list[Object]:
    return [{"counterSet": "s", "counters": {"slots": {"value": str(slots)}}}]


def on(name: str, *devices: Object, **spec: Any) -> list[Object]:
    """A node with devices."""
    return [node(name), resource_slice(name, *devices, node=name, **spec)]


def held(name: str, *devices: str | Object, on: str = "n", by: str = "") -> Object:
    """A claim that has devices, and for which pod."""
    status = allocated(*[result(each, on) if isinstance(each, str) else each for each in devices], node=on)
    if by:
        status["reservedFor"] = [{"resource": "pods", "name": by, "uid": by}]
    return claim(name, status=status)


def answer(*objects: Object, incoming: Object | None = None) -> Explanation:
    """Of a pod with the claim c."""
    return explained(incoming or claiming(pod("p"), "c"), [GPU, *objects])


CASES: list[tuple[str, list[Object], dict[str, list[str]]]] = [
    (
        "a pod has the device",
        [*on("n", SMALL), held("x", "d0", by="train"), claim()],
        {
            "move default/train off n": ["kubectl delete pod train -n default"],
            "add a node like n": [],
        },
    ),
    (
        "a claim has it that nobody uses",
        [*on("n", SMALL), held("x", "d0"), claim()],
        {"add a node like n": []},
    ),
    (
        "a selector",
        [*on("n", SMALL), claim("c", request("r", "gpu", f'{MODEL} == "H100"'))],
        {},
    ),
    (
        "another class",
        [LARGE, *on("n", SMALL), claim("c", request("r", "large"))],
        {},
    ),
    (
        "too many",
        [*on("n", SMALL, device("d1")), claim("c", request(count=3))],
        {},
    ),
    (
        "a driver's taint",
        [*on("n", device("d0", _taints=[SICK])), claim()],
        {},
    ),
    (
        "an administrator's taint",
        [*on("n", SMALL), taint_rule("upgrade", SICK), claim()],
        {},
    ),
    (
        "a constraint",
        [
            *on("n", SMALL, device("d1", model="T4")),
            claim("c", request("r"), request("s"), constraints=[{"matchAttribute": "gpu.test/model"}]),
        ],
        {},
    ),
    (
        "a counter",
        [
            node("n"),
            resource_slice("s", pool="n", node="n", count=2, sharedCounters=SETS),
            resource_slice(
                "n",
                device("half", _consumesCounters=uses(1)),
                device("d0", _consumesCounters=uses(2)),
                node="n",
                count=2,
            ),
            held("x", "half", by="train"),
            claim("c", request("r", "gpu", count=2)),
        ],
        {},
    ),
    (
        "capacity",
        [
            *on("n", device("d0", {"memory": "4Gi"}, _allowMultipleAllocations=True)),
            claim("c", request(capacity={"requests": {"memory": "8Gi"}})),
        ],
        {},
    ),
    (
        "capacity of which another claim has a part",
        [
            *on("n", device("d0", _capacity={"memory": {"value": "8Gi", "requestPolicy": POLICY}}, **SHARED)),
            held("x", result("d0", "n", shareID="1", consumedCapacity={"memory": "6Gi"}), by="train"),
            claim("c", request(capacity={"requests": {"memory": "4Gi"}})),
        ],
        {"move default/train off n": ["kubectl delete pod train -n default"]},
    ),
    (
        "an alternative",
        [
            LARGE,
            *on("n", SMALL, device("d1", large=False)),
            claim("c", first_of("r", a=asks("large"), b=asks("gpu", count=3))),
        ],
        {},
    ),
    (
        "each request alone would have its devices",
        [*on("n", SMALL, device("d1"), device("d2")), claim("c", request("a", count=2), request("b", count=2))],
        {},
    ),
    (
        "one request has just what it needs, another has not",
        [
            LARGE,
            *on("n", SMALL, device("d1", large=False, model="T4")),
            claim("c", request("a", "gpu", f'{MODEL} == "L4"'), request("b", "large")),
        ],
        {},
    ),
    (
        "reasons of several devices",
        [
            *on("n", device("d0", model="L4", _taints=[SICK]), device("d1", model="L4", _taints=[SICK, BAD])),
            claim("c", request("r", "gpu", f'{MODEL} == "T4"', f'{MODEL} != "x"', tolerations=[ANY])),
        ],
        {},
    ),
    (
        "a capacity of its driver's name",
        [
            *on("n", device("d0", {"gpu.test/memory": "4Gi"}, **SHARED)),
            claim("c", request(capacity={"requests": {"gpu.test/memory": "8Gi"}})),
        ],
        {},
    ),
    (
        "more devices than one claim has",
        [*on("n", *SIX), *(held(f"x{i}", f"d{i}", by=f"u{i}") for i in range(6)), claim("c", request(count=3))],
        {
            " and ".join(f"move default/u{i} off n" for i in range(3)): [
                f"kubectl delete pod u{i} -n default" for i in range(3)
            ],
        },
    ),
    (
        "more devices than are offered together",
        [*on("n", *SIX), *(held(f"x{i}", f"d{i}", by=f"u{i}") for i in range(6)), claim("c", request(count=4))],
        {"add a node like n": []},
    ),
    (
        "the claim that has most of them",
        [
            *on("n", *SIX),
            held("a", "d5", by="one"),
            held("b", "d3", "d4", by="two"),
            held("most", "d0", "d1", "d2", by="three"),
            claim("c", request(count=3)),
        ],
        {"move default/three off n": ["kubectl delete pod three -n default"]},
    ),
    (
        "all devices, of which some are taken",
        [
            *on("n", SMALL, device("d1")),
            held("x", "d0", by="train"),
            claim("c", request("r", "gpu", count=0, allocationMode="All")),
        ],
        {"move default/train off n": ["kubectl delete pod train -n default"]},
    ),
    (
        "a second constraint",
        [
            *on("n", device("d0", model="L4", size=1), device("d1", model="L4", size=2)),
            claim(
                "c", request("r", count=2), constraints=[{"matchAttribute": f"gpu.test/{a}"} for a in ("model", "size")]
            ),
        ],
        {},
    ),
    (
        "what the claim was given is elsewhere",
        [
            node("n", "8"),
            node("m", "100m"),
            resource_slice("n", SMALL, node="n"),
            resource_slice("m", SMALL, node="m"),
            held("c", "d0", on="m", by="other"),
        ],
        {"move default/other off m": ["kubectl delete pod other -n default"]},
    ),
]


@pytest.mark.parametrize(("objects", "offered"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_offered(objects: list[Object], offered: dict[str, list[str]]) -> None:
    """The change, and the command that makes it, where one does; of the claim itself none."""
    objects = [*objects, *users(objects)]
    found = answer(*objects, incoming=claiming(pod("p", "1"), "c"))
    told = {each.text: each.commands for each in found.remedies}
    assert {text: lines for text, lines in told.items() if text in offered or not offered} == offered
    assert found.outcome == "unschedulable"
    for each in found.remedies:
        assert freed(each.changes, claiming(pod("p", "1"), "c"), [GPU, *objects]), each.text


def test_less_of_an_extended_resource() -> None:
    """The scheduler makes the claim for it."""
    served = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="example.com/gpu")
    asking = pod("p")
    asking["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "3"}}
    found = explained(asking, [served, *on("n", SMALL, device("d1"))])
    assert [each.text for each in found.remedies] == ["ask for 2 example.com/gpu instead of 3"]


def with_extended(name: str, device: str, on: str) -> list[Object]:
    """A placed pod with an extended resource, and the claim that the scheduler has made for it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    meta = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
        "resourceVersion": "7",
    }
    made = pod(name, on=on, uid=name, others={"example.com/gpu": "1"})
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    status = allocated(result(device, on), node=on, reserved=[name])
    return [made, claim(f"{name}-extended", status=status, meta=meta)]


def test_a_pod_with_an_extended_resource_gives_its_device_back() -> None:
    """Its claim goes with it, and it gets another one elsewhere."""
    served = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="example.com/gpu")
    objects = [served, *on("n", SMALL), *with_extended("train", "d0", "n"), claim()]
    incoming = claiming(pod("p", select={"kubernetes.io/hostname": "n"}), "c")
    found = explained(incoming, [*objects, *on("m", SMALL)])
    (move,) = [each for each in found.remedies if each.text == "move default/train off n"]
    assert move.effects is not None and move.effects.moved == {"default/train": "m"}
    there = world([*objects, *on("m", SMALL)])
    assert [each.node for each in removals(there.cluster, framework(), lambda node: True).removable] == ["m", "n"]
    validate(there.cluster)
    assert there.cluster.devices.made_for("train", "train") is not None, "all is as before"


def test_of_pods_alike_only_one_has_its_claim() -> None:
    """The one that is tried before it has none yet. It takes the room of a pod that it comes before, and what is left
    by another.
    """

    def waiting(name: str, cpu: str, priority: int) -> Object:
        return templated(pod(name, cpu, uid=name, priority=priority), "t")

    def moved(*others: Object) -> list[Remedy]:
        found = explained(pod("p", "2", priority=5), objects, waiting=others)
        return [each for each in found.remedies if each.text == "move default/x off n"]

    owner = {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "b", "controller": True}
    objects = [GPU, node("n", "4"), resource_slice("n", SMALL, node="n"), pod("x", "3", on="n", priority=5)]
    objects.append(claim("b-t", meta={"ownerReferences": [owner]}))
    made = {"status": {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "b-t"}]}}
    assert len(moved(waiting("a", "3", 10))) == 1
    assert moved(waiting("a", "3", 10), waiting("b", "3", 10) | made) == []
    (offer,) = moved(waiting("a", "2", 0), waiting("b", "2", 0) | made)
    assert offer.effects is not None and offer.effects.lands == ["default/b"]


def test_what_would_be_given() -> None:
    """The devices of each claim, on the nodes that can take the pod."""
    found = answer(*on("n", SMALL, device("d1")), held("x", "d0"), claim())
    assert [(each.node, each.devices) for each in found.feasible] == [("n", {"c": ["gpu.test/n/d1"]})]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpux", "there is no DeviceClass gpux; did you mean gpu?"),
        ("nic", "there is no DeviceClass nic; there are gpu"),
    ],
)
def test_a_class_that_is_not_there(name: str, said: str) -> None:
    """One that is called nearly so is meant."""
    assert said in answer(*on("n", SMALL), claim("c", request("r", name))).notes


@pytest.mark.parametrize("model", ["L4", "größte"])
def test_a_value_that_is_not_selected_is_told(model: str) -> None:
    """As the device has it."""
    devices = [device(name, model=model) for name in ("d0", "d1")]
    found = answer(*on("n", *devices), claim("c", request("r", "gpu", f'{MODEL} == "H100"')))
    (why,) = [finding.detail for finding in found.rejected[0].findings]
    assert why.endswith(f'(gpu.test/n/d0, d1: not selected by {MODEL} == "H100", as model is "{model}")')


def test_who_has_devices_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many nodes are asked about: claims are not gone through for each device."""
    from podberth.explain.plugins import dynamic_resources as module

    made = []

    class Counted(module.Holders):
        def __init__(self, devices: Any) -> None:
            made.append(1)
            super().__init__(devices)

    monkeypatch.setattr(module, "Holders", Counted)
    objects = [each for i in range(20) for each in (*on(f"n{i}", SMALL), held(f"x{i}", "d0", on=f"n{i}"))]
    answer(*objects, claim())
    assert len(made) <= 1


# -- carried out on plain objects ------------------------------------------------------------------------------------


def freed(plan: list[Change], incoming: Object, objects: list[Object]) -> bool:
    """Return whether the pod fits once a plan is carried out."""
    incoming, objects = deepcopy(incoming), deepcopy(objects)
    for change in plan:
        carry_out(change, incoming, objects)
    return explained(incoming, objects).outcome == FITS


def carry_out(change: Change, incoming: Object, objects: list[Object]) -> None:
    """By code of its own."""
    named = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    match change:
        case MovePod(key):
            name = key.partition("/")[2]
            objects.remove(named["Pod", name])
            for each in [each for each in objects if each["kind"] == "ResourceClaim" and each.get("status")]:
                left = [user for user in each["status"].get("reservedFor", ()) if user["name"] != name]
                if left != each["status"].get("reservedFor", []):
                    each["status"] = {**each["status"], "reservedFor": left} if left else {}
        case Request(requests):
            incoming["spec"]["containers"][0]["resources"]["requests"] |= {
                name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in requests.items()
            }
        case AddNode(like):
            clone, name = deepcopy(named["Node", like]), f"{like}-more"
            clone["metadata"]["name"] = clone["metadata"]["labels"]["kubernetes.io/hostname"] = name
            objects.append(clone)
            for each in [each for each in objects if each["kind"] == "ResourceSlice"]:
                if each["spec"].get("nodeName") == like:
                    more = deepcopy(each)
                    more["metadata"] = {"name": f"{each['metadata']['name']}-more", "uid": "more"}
                    more["spec"] |= {"nodeName": name, "pool": {**each["spec"]["pool"], "name": name}}
                    objects.append(more)
        case _:
            raise AssertionError(change)


DEVICE = st.tuples(st.sampled_from(["L4", "H100"]), st.booleans(), st.sampled_from(["", "x", "y"]))
"""Its model, whether it is tainted, and by which claim it is held."""
ASKED = st.builds(
    lambda name, of, model, count: request(name, of, *([f'{MODEL} == "{model}"'] if model else []), count=count),
    st.sampled_from(["r", "s"]),
    st.sampled_from(["gpu", "large"]),
    st.sampled_from(["", "L4", "T4"]),
    st.integers(1, 3),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pools=st.lists(st.lists(DEVICE, max_size=4), min_size=1, max_size=3),
    requests=st.lists(ASKED, min_size=1, max_size=2, unique_by=lambda one: one["name"]),
    matches=st.booleans(),
)
def test_every_remedy_carried_out_frees_the_pod(
    pools: list[list[tuple[str, bool, str]]], requests: list[Object], matches: bool
) -> None:
    """Nothing is offered that would not help."""
    constraints: Any = {"constraints": [{"matchAttribute": "gpu.test/model"}]} if matches else {}
    objects: list[Object] = [GPU, LARGE, claim("c", *requests, **constraints)]
    for i, pool in enumerate(pools):
        devices = [
            device(f"d{j}", model=model, large=model == "H100", **({"_taints": [SICK]} if tainted else {}))
            for j, (model, tainted, _) in enumerate(pool)
        ]
        objects += on(f"n{i}", *devices)
        for name in ("x", "y"):
            mine = [f"d{j}" for j, (_, _, by) in enumerate(pool) if by == name]
            if mine:
                objects.append(held(f"{name}{i}", *mine, on=f"n{i}", by=f"pod-{name}{i}"))
    objects += users(objects)
    incoming = claiming(pod("p"), "c")
    found = explained(incoming, objects)
    for remedy in found.remedies:
        assert freed(remedy.changes, incoming, objects), remedy.text


@pytest.mark.parametrize(
    ("elsewhere", "goes"),
    [
        pytest.param(on("m", SMALL), "m", id="a free device"),
        pytest.param([*on("m", SMALL), held("y", "d0", on="m", by="other")], None, id="none is free"),
        pytest.param([node("m")], None, id="a node without devices"),
    ],
)
def test_where_the_holder_of_a_device_would_go(elsewhere: list[Object], goes: str | None) -> None:
    """Not back to the device that it gave up, which the pod has by then; nothing is left changed."""
    train = pod("train", on="n", uid="train")
    train["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimName": "x"}]
    incoming = claiming(pod("p", select={"kubernetes.io/hostname": "n"}), "c")
    there = [*on("n", SMALL), held("x", "d0", by="train"), train, *elsewhere, claim()]
    found = answer(*there, incoming=incoming)
    (remedy,) = [each for each in found.remedies if isinstance(each.changes[0], MovePod)]
    assert remedy.nodes == ["n"]
    assert remedy.effects is not None
    assert remedy.effects.moved == {"default/train": goes}
    assert [each.text for each in answer(*there, incoming=incoming).remedies] == [each.text for each in found.remedies]


def test_pods_that_share_a_claim_go_together() -> None:
    """To the node where the first of them has its device."""
    users = [pod(name, on="n", uid=name) for name in ("one", "two")]
    for user in users:
        user["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimName": "x"}]
    shared = held("x", "d0", by="one")
    shared["metadata"]["resourceVersion"] = "7"
    shared["status"]["reservedFor"].append({"resource": "pods", "name": "two", "uid": "two"})
    incoming = claiming(pod("p", select={"kubernetes.io/hostname": "n"}), "c")
    found = answer(*on("n", SMALL), *on("m", SMALL), *on("o"), shared, *users, claim(), incoming=incoming)
    (remedy,) = [each for each in found.remedies if isinstance(each.changes[0], MovePod)]
    assert remedy.effects is not None
    assert remedy.effects.moved == {"default/one": "m", "default/two": "m"}
