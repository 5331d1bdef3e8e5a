"""What stands beside pods in a file counts in explain, simulate and capacity alike."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import devices, storage
from tests.builders import Object, node, pod
from tests.unit.cli.conftest import Berth

NODES = [node("a", "4"), node("b", "4"), storage.csi_node("a", csi_test=9), storage.csi_node("b", csi_test=9)]
WAIT = storage.storage_class("wait", "csi.test")
AT_ONCE = storage.storage_class("fast", "csi.test", waits=False)
USING = storage.using(pod("p", "1"), "data")


@pytest.fixture(params=["explain", "simulate", "capacity"])
def command(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    asked: str = request.param
    return asked


def default(made: Object) -> Object:
    """The class of claims that name none."""
    made = json.loads(json.dumps(made))
    made["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return made


def nameless(made: Object) -> Object:
    """The object without a namespace."""
    return {**made, "metadata": {key: value for key, value in made["metadata"].items() if key != "namespace"}}


def nodes(
    berth: Berth, command: str, there: Sequence[Object], *file: Object, arguments: Sequence[str] = (), says: str = ""
) -> set[str]:
    """Where the pods of a file go, by a command."""
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": [*NODES, *there]}))
    Path("file.json").write_text("\n".join(json.dumps(each) for each in file))
    named = ("--cluster", "dump.json", "-o", "json", "--no-validate", *arguments)
    found = berth(command, "-f", "file.json", *named)
    assert (found.code, says in found.err, bool(says)) == (0, True, bool(found.err)), found.err or found.out
    answer = json.loads(found.out)
    if command == "capacity":
        return {each["node"] for each in answer["nodes"] if each["pods"]}
    return {each["node"] for each in answer["feasible" if command == "explain" else "placed"]}


@pytest.mark.parametrize(
    ("there", "beside"),
    [
        pytest.param([WAIT], [storage.claim("data")], id="a claim"),
        pytest.param([], [storage.claim("data"), WAIT], id="a claim and its class"),
        pytest.param([AT_ONCE, default(WAIT)], [storage.claim("data", storage_class=None)], id="the default class"),
        pytest.param([], [storage.claim("data", storage_class=None), default(WAIT)], id="a default class that comes"),
    ],
)
def test_a_claim(berth: Berth, command: str, there: list[Object], beside: list[Object]) -> None:
    """The pod finds its claim. To explain and capacity it was not there."""
    assert nodes(berth, command, there, *beside, USING) <= {"a", "b"}


def test_a_claim_whose_class_makes_volumes_at_once(berth: Berth, command: str) -> None:
    """As for the claims of a StatefulSet, its volume is taken to suit any node."""
    says = "class fast makes volumes before pods have nodes: they are taken to suit any node"
    assert nodes(berth, command, [AT_ONCE], storage.claim("data", storage_class="fast"), USING, says=says)


def test_a_claim_that_the_cluster_has(berth: Berth, command: str) -> None:
    """Its volume counts, as a claim can't be changed. The file was refused by simulate."""
    bound = [
        storage.claim("data", to="disk"),
        storage.volume("disk", claimed="data", uid="claim/default/data", on=["host in b"]),
    ]
    asked = storage.claim("data")
    del asked["metadata"]["uid"]
    assert nodes(berth, command, [WAIT, *bound], asked, WAIT, USING) == {"b"}


def test_they_are_in_the_namespace_of_the_pods(berth: Berth, command: str) -> None:
    """That is the one of -n, where they name none."""
    there = [WAIT, devices.device_class(), devices.resource_slice("b", devices.device("d"), node="b")]
    beside = [storage.claim("data"), devices.claim_template()]
    made = devices.templated(storage.using(pod("p", "1"), "data"), "t")
    file = [nameless(each) for each in (*beside, made)]
    assert nodes(berth, command, there, *file, arguments=["-n", "shop"]) == {"b"}
