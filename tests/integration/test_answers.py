"""What `berth explain` suggests is carried out with the real kubectl, and a real scheduler places the pod."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from podberth.cli.main import run
from tests.controlplane.api import ApiError, Object
from tests.controlplane.cluster import Cluster
from tests.integration.berth import Harbour
from tests.integration.checks import BOUND, condition, node_of
from tests.integration.classes import wait_admitted
from tests.integration.devices import Devices
from tests.integration.objects import pods_path
from tests.integration.volumes import Disks
from tests.integration.waiting import WAITING, Place

BERTH = Path(sysconfig.get_path("scripts")) / "berth"
ALONE = ("less", "label", "tolerate", "port", "spread", "full", "two")
"""Kinds whose changes are tried with kube-scheduler, too: they change the pod, the node, and who is on it."""
AddNodes = Callable[..., None]


@pytest.fixture
def disks(control_plane: Cluster, real_namespace: str) -> Iterator[Disks]:
    """A class of volumes that are made when a pod has its node."""
    made = Disks(control_plane, real_namespace)
    made.make_class("disks.test")
    yield made
    made.close()


@pytest.fixture
def devices(control_plane: Cluster, real_namespace: str) -> Iterator[Devices]:
    """A class of devices."""
    made = Devices(control_plane, real_namespace)
    made.make_class()
    yield made
    made.close()


@pytest.fixture
def left(control_plane: Cluster) -> Iterator[list[str]]:
    """Paths of objects in no namespace that go when the test ends, if they are still there."""
    paths: list[str] = []
    yield paths
    for path in paths:
        try:
            control_plane.api.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise


def explained(dump: Path, name: str, namespace: str, capsys: pytest.CaptureFixture[str]) -> Object:
    """What berth says of a pod of a dump."""
    code = run(["explain", name, "-n", namespace, "--cluster", str(dump), "-o", "json"])
    out, err = capsys.readouterr()
    assert code in (0, 1), (name, err)
    answer: Object = json.loads(out)
    return answer


def chosen(answer: Object, kind: str) -> Object:
    """The suggestion that is carried out."""
    begins = WAITING[kind][1]
    offered = {each["text"]: each for each in answer["remedies"]}
    (text,) = [text for text in offered if text.startswith(begins)][:1] or [""]
    assert text, (kind, [*offered], answer["message"])
    found: Object = offered[text]
    assert found["commands"], (kind, text)
    return found


@pytest.mark.parametrize("who", ["berth", "kube-scheduler"])
def test_suggestions_come_true(
    control_plane: Cluster,
    real_namespace: str,
    harbour: Harbour,
    tmp_path: Path,
    add_nodes: AddNodes,
    disks: Disks,
    devices: Devices,
    left: list[str],
    capsys: pytest.CaptureFixture[str],
    who: str,
) -> None:
    """Each pod waits, is explained, and gets one of the nodes that were promised once the commands have run."""
    namespace, api = real_namespace, control_plane.api
    mine = f"mine-{secrets.token_hex(4)}"
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig")
    if who == "berth":
        scheduler, kinds = harbour.berth(control_plane).scheduler_name, tuple(WAITING)
    else:
        scheduler, kinds = harbour.kube_scheduler(control_plane)[1], ALONE
    for kind in kinds:
        place = Place(control_plane, namespace, scheduler, mine, kind, add_nodes, disks, devices, left)
        place.put(WAITING[kind][0](place))

    def found() -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in api.list(pods_path(namespace))}

    def waiting() -> bool:
        pods = found()
        return all(condition(pods[kind]).get("status") == "False" for kind in kinds)

    disks.until("all pods to wait", waiting)
    dump = tmp_path / "dump.json"
    subprocess.run([BERTH, "dump", "--kubeconfig", kubeconfig, "-f", dump], check=True)
    promised = {kind: chosen(explained(dump, kind, namespace, capsys), kind) for kind in kinds}
    tools = control_plane.tool("kubectl").parent
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig)}

    def carry_out(kind: str) -> None:
        for command in promised[kind]["commands"]:
            words = ["bash", "-c", command]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, (command, done.stderr)
            if command.startswith("kubectl create priorityclass"):
                wait_admitted(api, shlex.split(command)[3])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(carry_out, kinds))

    where: dict[str, str] = {}

    def bound() -> bool:
        pods = found()
        where.update({kind: node_of(pods[kind]) for kind in kinds if kind in pods})
        return all(where.get(kind) for kind in kinds)

    try:
        disks.until("all pods to get a node", bound, BOUND)
    except TimeoutError:
        messages = {kind: condition(pod).get("message") for kind, pod in found().items() if not node_of(pod)}
        raise AssertionError((messages, {kind: promised[kind]["commands"] for kind in messages})) from None
    wrong = {
        kind: (where[kind], promised[kind]["nodes"]) for kind in kinds if where[kind] not in promised[kind]["nodes"]
    }
    assert wrong == {}
