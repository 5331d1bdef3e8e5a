"""`berth bench` against the embedded API server and `berth run`, both as processes of their own."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from podberth.kube.client import Client
from podberth.kube.kubeconfig import from_kubeconfig
from podberth.testing.workloads.driver import Driver
from podberth.testing.workloads.workload import Mode, Workload, read
from tests.unit.cli.conftest import Berth
from tests.unit.cli.test_live import send

ROOT = Path(__file__).parents[3]
WORKLOAD = {
    "name": "small",
    "about": "A bit of everything.",
    "patience": 60,
    "steps": [
        {"createNodes": {"count": 6}},
        {"createNamespaces": {"name": "team", "count": 2, "labels": {"team": "devops"}}},
        {
            "createObjects": {
                "count": 1,
                "object": {"kind": "PriorityClass", "metadata": {"name": "$(run)-p"}, "value": 1},
            }
        },
        {"createPods": {"namespace": "init", "count": 3, "bound": True}},
        {
            "churn": {
                "interval": 0.05,
                "objects": [
                    {"kind": "Node", "metadata": {"name": "$(run)-churn-$(i)"}},
                    {"kind": "Service", "metadata": {"name": "s-$(i)"}, "spec": {"ports": [{"port": 80}]}},
                ],
            }
        },
        {"createPods": {"namespaces": "team", "count": 10}},
        {"barrier": {}},
        {"createPods": {"namespace": "measured", "count": 10, "measured": True, "rate": 200}},
    ],
}


PERF = """
- name: Case
  defaultPodTemplatePath: pod.yaml
  labels: [performance]
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes, uniqueNodeLabelStrategy: {labelKey: own}}
  - {opcode: createPods, count: 3, skipWaitToCompletion: true, namespace: gated, podTemplatePath: gated.yaml}
  - {opcode: barrier, stageRequirement: Attempted, labelSelector: {held: "yes"}, namespaces: [gated]}
  - {opcode: sleep, duration: 10ms}
  - {opcode: createPods, count: 4, steadyState: true, duration: 100ms}
  - {opcode: churn, mode: recreate, number: 2, intervalMilliseconds: 10, templatePaths: [service.yaml]}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - {name: small, params: {nodes: 5, pods: 8}}
  - {name: fast, params: {nodes: 5, pods: 2}, threshold: 1.0e+9}
"""
"""A file in scheduler_perf's form."""
MANIFESTS = {
    "pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {generateName: p-}, "
    "spec: {priority: 3, containers: [{name: c, image: i}]}}",
    "gated.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: 'g-{{.Index}}', labels: {held: 'yes'}}, "
    "spec: {schedulingGates: [{name: example.com/hold}], containers: [{name: c, image: i}]}}",
    "service.yaml": "{apiVersion: v1, kind: Service, metadata: {generateName: s-}, spec: {ports: [{port: 80}]}}",
}


DEVICES = ROOT / "bench" / "workloads"
GPU = {"name": "gpu", "exactly": {"deviceClassName": "$(run)-gpu"}}
NAMESPACES = "/api/v1/namespaces"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """An API server with a scheduler: its URL, and a kubeconfig."""
    kubeconfig = tmp_path_factory.mktemp("bench") / "kubeconfig"
    log = kubeconfig.with_name("log").open("wb")
    command = [sys.executable, "-m", "podberth.apiserver", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().split()[-1]
        # No port of its own: these tests run on several Pythons at once, and only one of them could have it.
        options = ["--kubeconfig", str(kubeconfig), "--secure-port", "0"]
        berth = [str(Path(sys.executable).with_name("berth")), "run", *options]
        with subprocess.Popen(berth, stderr=log) as scheduling:
            yield url, str(kubeconfig)
            ended = scheduling.poll()
            scheduling.terminate()
        serving.terminate()
    log.close()
    assert ended is None, Path(log.name).read_text()


def left(url: str, path: str) -> list[str]:
    """Names of what a run left behind."""
    with urlopen(f"{url}{path}") as answer:
        items: list[dict[str, Any]] = json.load(answer)["items"]
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith("bench-")]


def test_runs_and_cleans_up(berth: Berth, server: tuple[str, str]) -> None:
    """All measured pods are bound, and everything is removed."""
    url, kubeconfig = server
    Path("small.yaml").write_text(yaml.safe_dump(WORKLOAD))
    answer = berth("bench", "small.yaml", "-s", "berth", "--kubeconfig", kubeconfig, "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    (found,) = json.loads(answer.out)
    assert (found["workload"], found["schedulerName"]) == ("small", "berth")
    assert (found["figures"]["pods"], found["figures"]["bound"]) == (10, 10)
    assert 0 < found["figures"]["waitP50"] <= found["figures"]["waitP99"]
    paths = ("/api/v1/nodes", NAMESPACES, "/apis/scheduling.k8s.io/v1/priorityclasses")
    assert [left(url, path) for path in paths] == [[], [], []]


@pytest.mark.parametrize(("case", "code"), [("Case/small", 0), ("Case/fast", 1)])
def test_scheduler_perf(berth: Berth, server: tuple[str, str], case: str, code: int) -> None:
    """A workload of scheduler_perf's form binds its pods, and fails below its threshold; nothing is left behind."""
    url, kubeconfig = server
    for name, text in {**MANIFESTS, "performance-config.yaml": PERF}.items():
        Path(name).write_text(text)
    options = ["-s", "berth", "--kubeconfig", kubeconfig, "-o", "json"]
    answer = berth("bench", "performance-config.yaml", "--case", case, *options)
    assert (answer.code, answer.err) == (code, "")
    (found,) = json.loads(answer.out)
    assert found["workload"] == case
    assert found["figures"]["bound"] == found["figures"]["pods"] > 0
    paths = ("/api/v1/nodes", NAMESPACES, "/apis/scheduling.k8s.io/v1/priorityclasses")
    assert [left(url, path) for path in paths] == [[], [], []]


def test_thresholds_are_shown(berth: Berth, server: tuple[str, str]) -> None:
    """Both workloads by their label, in one table; the rate that is wanted has a column."""
    for name, text in {**MANIFESTS, "performance-config.yaml": PERF}.items():
        Path(name).write_text(text)
    answer = berth("bench", "performance-config.yaml", "-s", "berth", "--kubeconfig", server[1])
    assert answer.code == 1
    header, *rows = (line.split() for line in answer.out.splitlines() if line.strip())
    assert header[:5] == ["Workload", "Pods", "Bound", "Pods/s", "wanted"]
    assert [row[0] for row in rows if row[0].startswith("Case/")] == ["Case/small", "Case/fast"]
    assert "1,000,000,000" in rows[-1]


def test_what_was_measured_is_printed(berth: Berth, server: tuple[str, str]) -> None:
    """Also where a later workload can't be run."""
    claim = {"kind": "ResourceClaim", "metadata": {"name": "claim-$(i)"}, "spec": {"devices": {"requests": [GPU]}}}
    steps = [
        {"createNodes": {"count": 1}},
        {
            "createObjects": {
                "count": 1,
                "object": {"kind": "DeviceClass", "metadata": {"name": "$(run)-gpu"}, "spec": {}},
            }
        },
        {"createObjects": {"count": 1, "namespace": "init", "object": claim}},
        {"allocateClaims": {"namespace": "init"}},
        {"createPods": {"namespace": "measured", "count": 1, "measured": True}},
    ]
    Path("small.yaml").write_text(yaml.safe_dump(WORKLOAD))
    Path("claims.yaml").write_text(yaml.safe_dump({"name": "claims", "about": "Claims.", "steps": steps}))
    answer = berth("bench", "small.yaml", "claims.yaml", "-s", "berth", "--kubeconfig", server[1], "-o", "json")
    assert answer.code == 2
    assert [found["workload"] for found in json.loads(answer.out)] == ["small"]
    assert answer.err.startswith("berth: claims: ResourceClaim bench-")


def test_nobody_schedules(berth: Berth, server: tuple[str, str]) -> None:
    """Exit code 1 when pods stay unbound."""
    Path("small.yaml").write_text(yaml.safe_dump({**WORKLOAD, "patience": 0.1}))
    answer = berth("bench", "small.yaml", "-s", "nobody", "--kubeconfig", server[1])
    assert answer.code == 1
    assert "small" in answer.out


def test_real_nodes_are_respected(berth: Berth, server: tuple[str, str]) -> None:
    """A cluster with nodes of its own is refused."""
    url, kubeconfig = server
    send(f"{url}/api/v1/nodes", "POST", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    Path("small.yaml").write_text(yaml.safe_dump(WORKLOAD))
    answer = berth("bench", "small.yaml", "-s", "berth", "--kubeconfig", kubeconfig)
    send(f"{url}/api/v1/nodes/real", "DELETE", {})
    assert (answer.code, answer.out) == (2, "")
    assert "has nodes of its own (real, 1 in all)" in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["none.yaml"], "none.yaml: no such file", id="no file"),
        pytest.param(["bad.yaml"], "bad.yaml: steps: no createNodes", id="bad file"),
        pytest.param(["good.yaml", "--scale", "0"], "--scale: 0: expected more than 0", id="scale"),
        pytest.param(
            ["perf.yaml"], "perf.yaml: [0].workloadTemplate[3].opcode: invalid value 'createMoons'", id="operation"
        ),
        pytest.param(
            ["known.yaml", "--case", "Moon"],
            "known.yaml: --case Moon: expected what at least one of its workloads is",
            id="case",
        ),
        pytest.param(["known.yaml", "--scale", "2"], "known.yaml: a scale of 2: expected 1", id="scale of sizes"),
    ],
)
def test_refused(berth: Berth, arguments: list[str], said: str) -> None:
    """Exit code 2, and a line for each problem."""
    Path("bad.yaml").write_text(yaml.safe_dump({**WORKLOAD, "steps": []}))
    Path("good.yaml").write_text(yaml.safe_dump(WORKLOAD))
    Path("known.yaml").write_text(PERF)
    Path("perf.yaml").write_text(PERF.replace("opcode: sleep", "opcode: createMoons"))
    answer = berth("bench", *arguments, "-s", "berth")
    assert answer.code == 2
    assert answer.err.startswith(f"berth: {said}")


def device_workload(name: str, devices: float) -> Workload:
    """One of those that are shipped, in small, and named so that nothing else is called like its objects."""
    return read((DEVICES / f"{name}.yaml").read_bytes()).scaled(devices)


@pytest.mark.parametrize("name", ["dra", "dra-steady", "dra-extended"])
def test_claims_are_made_as_the_claim_controller_makes_them(server: tuple[str, str], name: str) -> None:
    """Each pod gets its device twice in a row where no controller runs, and nothing is left behind."""
    url, kubeconfig = server
    workload = device_workload(name, 0.01)

    async def run() -> tuple[list[int], list[int]]:
        async with Client(from_kubeconfig([kubeconfig], None), qps=-1) as client:
            driver = Driver(client, workload, f"bench-{name}", makes_claims=True)
            bound, claims = [], []
            for _ in range(2):
                bound.append(len((await driver.measure("berth", Mode.STREAM)).bound))
                await driver.clear()
                claims.append(len(left_claims(url)))
            await driver.tear_down()
            return bound, claims

    bound, claims = asyncio.run(run())
    held = sum(
        s.create_objects.count for s in workload.steps if s.create_objects and "status" in s.create_objects.object
    )
    assert (bound, claims) == ([workload.measured] * 2, [held] * 2)
    assert left_claims(url) == []


@pytest.mark.parametrize(("claims", "code"), [(3, 0), (6, 2)])
def test_claims_get_devices_without_pods(berth: Berth, server: tuple[str, str], claims: int, code: int) -> None:
    """Each gets a device of its own, which no measured pod gets; a claim too many is one line."""
    url, kubeconfig = server
    asked = {"devices": {"requests": [GPU]}}
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "$(pool)-node-$(i)",
        "pool": {"name": "$(pool)-node-$(i)", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    }
    device_class = {"kind": "DeviceClass", "metadata": {"name": "$(run)-gpu"}, "spec": {"selectors": [selector]}}
    claim = {"kind": "ResourceClaim", "metadata": {"name": "claim-$(i)"}, "spec": asked}
    steps = [
        {"createNodes": {"count": 2}},
        {
            "createObjects": {
                "count": 2,
                "object": {"kind": "ResourceSlice", "metadata": {"name": "$(run)-$(i)"}, "spec": spec},
            }
        },
        {"createObjects": {"count": 1, "object": device_class}},
        {"createObjects": {"count": claims, "namespace": "init", "object": claim}},
        {"allocateClaims": {"namespace": "init"}},
        {"createPods": {"namespace": "measured", "count": 2, "measured": True}},
    ]
    Path("claims.yaml").write_text(yaml.safe_dump({"name": "claims", "about": "Claims.", "steps": steps}))
    answer = berth("bench", "claims.yaml", "-s", "berth", "--kubeconfig", kubeconfig, "--keep")
    assert answer.code == code
    if code:
        assert re.fullmatch(
            r"berth: claims: ResourceClaim bench-\w+-init/claim-\d: no node has devices left for it\n", answer.err
        )
    with urlopen(f"{url}/apis/resource.k8s.io/v1/resourceclaims") as said:
        found = [
            item["status"]["allocation"]["devices"]["results"][0]
            for item in json.load(said)["items"]
            if "allocation" in item.get("status", {})
        ]
    assert len({(one["pool"], one["device"]) for one in found}) == min(claims, 4)
    run = found[0]["pool"].partition("-node-")[0]
    for path in (f"namespaces/{run}-init/resourceclaims", "resourceslices", "deviceclasses"):
        send(f"{url}/apis/resource.k8s.io/v1/{path}", "DELETE", {})
    for path in (f"namespaces/{run}-measured/pods", "nodes", *(f"namespaces/{one}" for one in left(url, NAMESPACES))):
        send(f"{url}/api/v1/{path}", "DELETE", {})


@pytest.mark.parametrize("name", ["events-poddelete", "events-nodeupdate", "finalizers", "slices"])
def test_what_happens_beside_a_scheduler(server: tuple[str, str], name: str) -> None:
    """Pods are bound once others, or nodes, are changed or deleted, twice in a row, and nothing is left behind."""
    url, kubeconfig = server
    workload = device_workload(name, 0.01)

    async def run() -> list[int]:
        async with Client(from_kubeconfig([kubeconfig], None), qps=-1) as client:
            driver = Driver(client, workload, f"bench-{name}", makes_claims=True)
            bound = []
            for _ in range(2):
                bound.append(len((await driver.measure("berth", Mode.STREAM)).bound))
                await driver.clear()
            nodes = len(left(url, "/api/v1/nodes"))
            await driver.tear_down()
            return [*bound, nodes]

    assert asyncio.run(run()) == [workload.measured, workload.measured, workload.nodes]
    assert [left(url, path) for path in ("/api/v1/nodes", NAMESPACES, SLICES)] == [[], [], []]


def left_claims(url: str) -> list[str]:
    """Names of the claims that are there."""
    with urlopen(f"{url}/apis/resource.k8s.io/v1/resourceclaims") as answer:
        return [item["metadata"]["name"] for item in json.load(answer)["items"]]
