"""Claims of pod groups (spec.resourceClaims of a PodGroup): they are reserved for the group, behind upstream's gate."""

from collections.abc import Iterator

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Instruction, PostFilterWrite, UnreserveWrite
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Follows, PreBindWriteFailed
from podberth.framework.binding import Patch
from podberth.framework.config import ConfigError
from podberth.model.devices import FINALIZER
from podberth.model.pod_group import NATIVE, NATIVE_KIND
from podberth.plugins.dynamic_resources.reservation import NOTHING, RESERVED_OVER
from tests.builders import Object, configuration, node, profile
from tests.devices import allocated, claim, claiming, device, device_class, resource_slice, result

from .api import Api
from .conftest import Harness
from .test_gangs import bound, failures, group, member
from .test_gangs_by_topology import BY_RACK, PLUGINS
from .test_gangs_that_share import carry_out, writes

FINALIZED = {"finalizers": [FINALIZER]}
SHARED = ("ResourceClaim", "default", "shared")
TRAIN = (NATIVE_KIND, "default", "train")
GROUP = {"apiGroup": NATIVE, "resource": "podgroups", "name": "train", "uid": "train"}
BY_NAME = [{"name": "shared", "resourceClaimName": "shared"}]
BY_TEMPLATE = [{"name": "shared", "resourceClaimTemplateName": "t"}]


def gated(**gates: bool) -> Harness:
    return Harness(configuration(profile(DynamicResources={"featureGates": gates})))


@pytest.fixture
def gangs() -> Iterator[Harness]:
    """The gate is on, and the API server serves PodGroups."""
    harness = gated(DRAWorkloadResourceClaims=True)
    harness.handle(Follows(NATIVE, True))
    yield harness
    assert validate(harness.engine.cluster) == []
    assert len(harness.engine.cluster.devices.users) == 0


def cluster(harness: Harness, pods: int = 2, there: Object | None = None, **spec: object) -> Api:
    """One device, one claim, and a gang whose claim it is."""
    there = claim("shared", meta=FINALIZED) if there is None else there
    made = group(min_count=pods, resourceClaims=BY_NAME) | spec
    api = Api(harness, node("n", cpu="100", pods="500"), device_class(), there, made)
    api.put(resource_slice("n", device("d0"), node="n"))
    for number in range(pods):
        api.put(worker(number))
    return api


def worker(number: int) -> Object:
    return claiming(member(f"w{number}", "100m", meta={"uid": f"default/w{number}"}), "shared")


def templated(number: int) -> Object:
    made = member(f"w{number}", "100m", meta={"uid": f"default/w{number}"})
    made["spec"]["resourceClaims"] = BY_TEMPLATE
    made["status"]["resourceClaimStatuses"] = [{"name": "shared", "resourceClaimName": "shared"}]
    return made


def of_template(harness: Harness) -> Api:
    """A claim that was made for the group."""
    owner = {"apiVersion": f"{NATIVE}/v1beta1", "kind": "PodGroup", "name": "train", "uid": "train", "controller": True}
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"))
    api.put(claim("shared", meta={**FINALIZED, "ownerReferences": [owner]}))
    made = group(min_count=2, resourceClaims=BY_TEMPLATE)
    made["status"] = {"resourceClaimStatuses": [{"name": "shared", "resourceClaimName": "shared"}]}
    api.put(made)
    for number in range(2):
        api.put(templated(number))
    return api


def written(said: list[Instruction]) -> list[str]:
    """The kinds of what pods write, in this order."""
    return [patch.key[0] for one in writes(said) for patch in one.writes]


def reserved(api: Api) -> list[Object]:
    found: list[Object] = api.get(SHARED)["status"]["reservedFor"]
    return found


def freed(said: list[Instruction]) -> list[Patch]:
    return [
        patch for one in said if isinstance(one, PostFilterWrite) for patch in one.writes if isinstance(patch, Patch)
    ]


def test_it_is_reserved_for_the_group(gangs: Harness) -> None:
    api = cluster(gangs, 3)
    said = carry_out(api, gangs, gangs.cycles())
    assert sorted(bound(said)) == ["w0", "w1", "w2"]
    assert written(said) == ["PodGroup", "ResourceClaim"], "one of them writes"
    assert reserved(api) == [GROUP]


def test_it_is_reserved_for_the_group_that_is_there(gangs: Harness) -> None:
    """The group was made anew, and the watch of groups is behind: no claim is reserved for one that is gone.

    The claim controller would free the claim, and the pods would have no device (seed 201556 of the storm).
    """
    api = cluster(gangs)
    said = gangs.cycles()
    for name in ("w0", "w1"):  # each has its turn
        (one,) = writes(said)
        assert one.writes == (Patch(TRAIN, "train", "", {}, "status"),), "it changes nothing"
        said = gangs.handle(PreBindWriteFailed(one.pod.uid, 409, "PodGroup train was made anew", {}))
        assert list(failures(said)) == [name]
    assert (bound(said), writes(said)) == ([], [])
    api.put(group(min_count=2, resourceClaims=BY_NAME) | {"metadata": {**api.get(TRAIN)["metadata"], "uid": "new"}})
    said = carry_out(api, gangs, gangs.tick(15.0) + gangs.cycles())
    assert sorted(bound(said)) == ["w0", "w1"]
    assert reserved(api) == [{**GROUP, "uid": "new"}]


def test_a_group_that_is_confirmed_is_not_shown(gangs: Harness) -> None:
    """A patch that changes nothing has no event: the pod goes on with the answer."""
    api = cluster(gangs)
    (first,) = writes(gangs.cycles())
    said = gangs.handle(api.write(first))
    assert [patch.key for one in writes(said) for patch in one.writes] == [SHARED]
    assert sorted(bound(carry_out(api, gangs, said))) == ["w0", "w1"]


def test_claims_of_a_pod_beside_those_of_its_group(gangs: Harness) -> None:
    """Each is reserved for whose it is."""
    api = cluster(gangs, 0)
    api.put(group(min_count=2, resourceClaims=BY_NAME))
    api.put(resource_slice("n", *(device(f"d{number}") for number in range(3)), node="n"))
    for number in range(2):
        api.put(claim(f"own{number}", meta=FINALIZED))
        api.put(claiming(worker(number), "shared", f"own{number}"))
    assert sorted(bound(carry_out(api, gangs, gangs.cycles()))) == ["w0", "w1"]
    assert reserved(api) == [GROUP]
    for number in range(2):
        status = api.get(("ResourceClaim", "default", f"own{number}"))["status"]
        assert [one["uid"] for one in status["reservedFor"]] == [f"default/w{number}"]


def test_a_claim_of_the_group_that_is_used_later(gangs: Harness) -> None:
    """It is reserved for the group that is there, whatever was found out for another claim."""
    claims = [{"name": name, "resourceClaimName": name} for name in ("shared", "second")]
    api = cluster(gangs)
    api.put(group(min_count=2, resourceClaims=claims))
    api.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    api.put(claim("second", meta=FINALIZED))
    assert sorted(bound(carry_out(api, gangs, gangs.cycles()))) == ["w0", "w1"]
    api.put(claiming(worker(2), "shared", "second"))
    said = carry_out(api, gangs, gangs.cycles())
    assert (bound(said), written(said)) == (["w2"], ["PodGroup", "ResourceClaim"])
    assert api.get(("ResourceClaim", "default", "second"))["status"]["reservedFor"] == [GROUP]


def test_it_was_made_for_the_group(gangs: Harness) -> None:
    api = of_template(gangs)
    assert sorted(bound(carry_out(api, gangs, gangs.cycles()))) == ["w0", "w1"]
    assert reserved(api) == [GROUP]


def test_without_the_gate(harness: Harness) -> None:
    """As in kube-scheduler, where it is off too."""
    harness.handle(Follows(NATIVE, True))
    api = cluster(harness)
    assert sorted(bound(carry_out(api, harness, harness.cycles()))) == ["w0", "w1"]
    assert [one["resource"] for one in reserved(api)] == ["pods", "pods"]


def test_a_template_without_the_gate(harness: Harness) -> None:
    harness.handle(Follows(NATIVE, True))
    of_template(harness)
    assert harness.cycles() == []
    assert harness.engine.queue.counts()[Place.GATED] == 2


def test_a_pod_that_comes_later_writes_nothing(gangs: Harness) -> None:
    """It is reserved for the group already."""
    api = cluster(gangs)
    carry_out(api, gangs, gangs.cycles())
    api.put(worker(7))
    said = gangs.cycles()
    assert (bound(said), writes(said)) == (["w7"], [])


def test_more_pods_than_a_claim_may_be_reserved_for(gangs: Harness) -> None:
    """It is reserved for one group, however many pods that has."""
    api = cluster(gangs, 300)
    said = carry_out(api, gangs, gangs.cycles())
    while gangs.engine.next_tick() == 0.0:
        said += gangs.tick(0.0)  # some are let go in each turn
    assert len(bound(said)) == 300
    assert reserved(api) == [GROUP]


def test_a_pod_that_fails_leaves_the_group_where_it_is(gangs: Harness) -> None:
    """Others of the group may need the claim."""
    api = cluster(gangs)
    carry_out(api, gangs, gangs.cycles())
    said = gangs.bind_failed("default/w1")
    assert not [one for one in said if isinstance(one, UnreserveWrite)]


def held(harness: Harness, cpu: str = "100m") -> Api:
    """An earlier attempt has left the claim reserved for the group, on a node that is full now."""
    status = {**allocated(result("d0", "n"), node="n"), "reservedFor": [GROUP]}
    there = claim("shared", meta=FINALIZED, status=status)
    api = Api(harness, node("n", cpu=cpu), device_class(), there, group(min_count=2, resourceClaims=BY_NAME))
    api.put(resource_slice("n", device("d0"), node="n"))
    for number in range(2):
        api.put(worker(number))
    return api


def test_what_keeps_the_group_from_nodes_is_freed(gangs: Harness) -> None:
    gangs.put(node("m"))
    api = held(gangs)
    (patch,) = freed(gangs.cycles())
    version = api.get(SHARED)["metadata"]["resourceVersion"]
    assert patch == Patch(SHARED, "claim/shared", version, {"status": NOTHING}, "status")
    api.edit(SHARED, status=NOTHING)
    api.put(resource_slice("m", device("e0"), node="m"))
    said = carry_out(api, gangs, gangs.tick(15.0) + gangs.cycles())
    assert {one.node for one in said if isinstance(one, Bind)} == {"m"}


def test_a_group_that_does_not_fit_lets_go(gangs: Harness) -> None:
    """Others may have the devices freed then (deallocatePodGroupClaims)."""
    api = held(gangs)
    (patch,) = freed(gangs.cycles())
    version = api.get(SHARED)["metadata"]["resourceVersion"]
    assert patch == Patch(SHARED, "claim/shared", version, {"status": {"reservedFor": None}}, "status")


def test_a_group_that_let_go_and_fits_after_all(gangs: Harness) -> None:
    """What lets go of the claim may still be under way: it is refused once the claim has another version."""
    api = cluster(gangs)
    carry_out(api, gangs, gangs.cycles())
    for number in range(2):
        gangs.lose("Pod", "default", f"w{number}", f"default/w{number}")
    api.put(node("n", cpu="100m"))
    for number in (2, 3):
        api.put(worker(number))
    (patch,) = freed(gangs.cycles())
    assert patch.resource_version == api.get(SHARED)["metadata"]["resourceVersion"]
    api.put(node("n"))
    said = carry_out(api, gangs, gangs.tick(15.0) + gangs.cycles())
    assert sorted(bound(said)) == ["w2", "w3"]
    assert written(said) == ["PodGroup", "ResourceClaim"], "one of them is enough"
    assert api.get(SHARED)["metadata"]["annotations"] == {RESERVED_OVER: patch.resource_version}
    assert reserved(api) == [GROUP]


def test_what_keeps_it_from_another_rack_is_freed() -> None:
    """An earlier attempt has given a claim a device of a rack that has no room for all any more."""
    gangs = Harness(configuration(profile(plugins=PLUGINS)))
    gangs.handle(Follows(NATIVE, True))
    held = claim("c0", meta=FINALIZED, status=allocated(result("d0", "a"), node="a"))
    nodes = (node("a", cpu="100m", labels={"rack": "a"}), node("b", labels={"rack": "b"}))
    api = Api(gangs, *nodes, device_class(), held, claim("c1", meta=FINALIZED))
    api.put(resource_slice("a", device("d0"), node="a"))
    api.put(resource_slice("b", device("d0"), device("d1"), node="b"))
    api.put(group(min_count=2, **BY_RACK))
    for number in range(2):
        api.put(claiming(member(f"w{number}", "100m", meta={"uid": f"default/w{number}"}), f"c{number}"))
    patch, over = freed(gangs.cycles())
    assert patch.key == ("ResourceClaim", "default", "c0")
    assert patch.change == {"status": NOTHING}
    assert over.key == ("ResourceClaim", "default", "c1"), "an earlier leader may have sent an allocation"
    assert over.change == {"metadata": {"annotations": {RESERVED_OVER: over.resource_version}}}
    api.edit(patch.key, status=NOTHING)
    said = carry_out(api, gangs, gangs.tick(15.0) + gangs.cycles())
    assert {one.node for one in said if isinstance(one, Bind)} == {"b"}


def test_a_group_of_which_a_pod_runs_does_not_let_go(gangs: Harness) -> None:
    api = held(gangs)
    running = worker(5)
    running["spec"]["nodeName"] = "n"
    api.put(running)
    said = gangs.cycles()
    assert sorted(failures(said)) == ["w0", "w1"]
    assert freed(said) == []


def test_no_other_gate_is_known() -> None:
    with pytest.raises(ConfigError, match='featureGates: Invalid value: "Other": the gates are DRAWorkload'):
        gated(Other=True)
