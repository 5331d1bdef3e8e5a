"""What `berth explain` suggests is carried out with the real kubectl, and the real scheduler places the pod."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration.berth import Harbour
from tests.integration.objects import ZONE, node, on, pod, pods_path

BERTH = Path(sysconfig.get_path("scripts")) / "berth"
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "less": ({"cpu": "6"}, "ask for"),
    "select": ({"nodeSelector": {"disk": "ssd"}}, "drop nodeSelector"),
    "label": ({"nodeSelector": {"rack": "r-1"}}, "label "),
    "zone": ({"affinity": on(ZONE, ["zone-9"])}, "drop the required node affinity"),
    "port": ({"ports": 8080}, "do without host port"),
    "spread": ({"labels": {"app": "even"}, "spread": True}, "let the spread over"),
    "move": ({"cpu": "3500m"}, "move "),
}
"""Pod → how it is made, and how the change begins that is carried out."""


def made(name: str, scheduler: str, mine: str, how: dict[str, Any]) -> Object:
    """A pod that only goes to the nodes of this test."""
    how = dict(how)
    port, spread = how.pop("ports", None), how.pop("spread", False)
    how["nodeSelector"] = {"mine": mine, **how.get("nodeSelector", {})}
    found = pod(name, scheduler, **how)
    if port is not None:
        found["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    if spread:
        constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        selector = {"matchLabels": {"app": "even"}}
        found["spec"]["topologySpreadConstraints"] = [{**constraint, "labelSelector": selector}]
    return found


def explained(kubeconfig: Path, name: str, namespace: str) -> Object:
    """What berth says of a pod of the live cluster."""
    command: list[str | Path] = [BERTH, "explain", name, "-n", namespace, "--kubeconfig", kubeconfig, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    answer: Object = json.loads(done.stdout)
    return answer


def test_suggestions_come_true(
    control_plane: Cluster,
    real_namespace: str,
    harbour: Harbour,
    tmp_path: Path,
    add_nodes: Callable[..., None],
) -> None:
    """Each pod waits, is explained, and gets one of the nodes that were promised once the commands have run."""
    namespace = real_namespace
    api, mine = control_plane.api, f"mine-{secrets.token_hex(4)}"
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig")
    _, scheduler = harbour.kube_scheduler(control_plane)
    tools = control_plane.tool("kubectl").parent
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig)}
    for name, (how, begins) in CASES.items():
        own = f"{mine}-{name}"
        add_nodes(control_plane, [node(f"{own}-{i}", f"zone-{i}", labels={"mine": own}) for i in range(2)])
        residents: dict[str, dict[str, Any]] = {
            "port": {"ports": 8080},
            "spread": {"labels": {"app": "even"}},
            "move": {"cpu": "1"},
        }
        for i in range(2):
            # Every second node holds what is in the way; of the spread, one zone is full besides.
            there = made(f"there-{name}-{i}", scheduler, own, residents.get(name, {}))
            if name == "spread":
                there["spec"]["nodeName"] = f"{own}-0"
            else:
                there["spec"]["nodeName"] = f"{own}-{i}"
            api.create(pods_path(namespace), there)
        if name == "spread":
            filler = made("filler", scheduler, own, {"cpu": "4"})
            filler["spec"]["nodeName"] = f"{own}-1"
            api.create(pods_path(namespace), filler)
        api.create(pods_path(namespace), made(name, scheduler, own, how))

        def waits(name: str = name) -> bool:
            status = api.get(f"{pods_path(namespace)}/{name}")["status"]
            return any(c["reason"] == "Unschedulable" for c in status.get("conditions", ()))

        wait_for(f"{name} to be unschedulable", waits, 60)
        answer = explained(kubeconfig, name, namespace)
        offered = {each["text"]: each for each in answer["remedies"]}
        (text,) = [text for text in offered if text.startswith(begins)][:1] or [""]
        assert text, (name, [*offered])
        remedy = offered[text]
        assert remedy["commands"], remedy
        for command in remedy["commands"]:
            done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
            assert done.returncode == 0, (command, done.stderr)

        def bound(name: str = name) -> str:
            found: str = api.get(f"{pods_path(namespace)}/{name}")["spec"].get("nodeName", "")
            return found

        assert wait_for(f"{name} to get a node", bound, 60) in remedy["nodes"]
