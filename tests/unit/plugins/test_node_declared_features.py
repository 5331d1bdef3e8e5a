"""NodeDeclaredFeatures: which pods need a feature, and which nodes have it."""

from typing import Any

import pytest

from podberth.explain.cases import answer
from tests.builders import Object, node, pod

RESTARTS = "RestartAllContainersOnContainerExits"
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
SAYS = "node(s) didn't match Pod's required features"


def declaring(name: str, *features: str) -> Object:
    made = node(name)
    made["status"]["declaredFeatures"] = list(features)
    return made


def with_container(**fields: Any) -> Object:
    made = pod("p")
    made["spec"]["containers"][0].update(fields)
    return made


def on_the_host(**fields: Any) -> Object:
    made = pod("p")
    made["spec"].update(fields)
    return made


@pytest.mark.parametrize(
    ("asked", "needs"),
    [
        (pod("p"), None),
        (with_container(restartPolicyRules=RULES), RESTARTS),
        (with_container(restartPolicyRules=[{"action": "Restart"}]), None),
        (with_container(volumeMounts=[{"name": "v", "bindMountOptions": ["noexec"]}]), "VolumeBindMountOptions"),
        (with_container(volumeMounts=[{"name": "bindMountOptions"}]), None),
        (on_the_host(hostNetwork=True, hostUsers=False), "UserNamespacesHostNetworkSupport"),
        (on_the_host(hostNetwork=True), None),
        (on_the_host(hostUsers=False), None),
    ],
)
def test_filter(asked: Object, needs: str | None) -> None:
    """A node has to declare what the pod needs; other features are neither here nor there."""
    objects = [declaring("has", needs or "Another", "More"), declaring("lacks", "Another")]
    found = answer({"objects": objects, "pod": asked}, None)
    rejected = {"lacks": {"plugin": "NodeDeclaredFeatures", "code": "UnschedulableAndUnresolvable", "reasons": [SAYS]}}
    assert found.get("filter", {}) == ({} if needs is None else rejected)
