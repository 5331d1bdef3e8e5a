"""Capacity figures and simulated placements of generated cases, made true on a real API server by Berth."""

from __future__ import annotations

import json
import random
import secrets
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podberth.cli.main import run
from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import HOSTNAME, ZONE, apart, node, pod, pods_path, rather_apart

BERTH = Path(sysconfig.get_path("scripts")) / "berth"
SEEDS = range(6)
"""Each is one case of its own kind of pods, on nodes of its own."""
APP = "case-{}"


def case(seed: int, mine: str) -> tuple[list[Object], list[Object], Object]:
    """Nodes, pods that are there, and one of the pods that are asked about."""
    chance = random.Random(seed)
    own, app = f"{mine}-{seed}", APP.format(seed)
    nodes = [
        node(f"{own}-{i}", f"{own}-{i % 2}", labels={"mine": own}, cpu=str(chance.randint(1, 4)), pods="8")
        for i in range(chance.randint(2, 4))
    ]
    there = [
        pod(f"there-{seed}-{i}", "nobody", cpu=f"{chance.randint(1, 3)}00m", memory="1Gi", labels={"app": "there"})
        for i in range(chance.randint(0, 3))
    ]
    for each in there:
        each["spec"]["nodeName"] = chance.choice(nodes)["metadata"]["name"]
    asks: dict[str, Any] = {"cpu": chance.choice(["300m", "500m"]), "memory": "500Mi", "labels": {"app": app}}
    made = pod(app, "", nodeSelector={"mine": own}, **asks)
    constraint = {"maxSkew": 1, "labelSelector": {"matchLabels": {"app": app}}, "whenUnsatisfiable": "DoNotSchedule"}
    match seed % 6:
        case 1:
            made["spec"]["affinity"] = apart({"app": app}, HOSTNAME)
        case 2:
            made["spec"]["topologySpreadConstraints"] = [{**constraint, "topologyKey": ZONE}]
        case 3:
            made["spec"]["containers"][0]["ports"] = [{"containerPort": 7000 + seed, "hostPort": 7000 + seed}]
        case 4:
            made["spec"]["affinity"] = rather_apart({"app": app}, HOSTNAME)
        case 5:
            made["spec"]["topologySpreadConstraints"] = [{**constraint, "topologyKey": HOSTNAME}]
    return nodes, there, made


def broken(seed: int, names: list[str], placed: list[str]) -> bool:
    """Whether pods on these nodes break what they ask for of each other; `names` are all nodes of the case."""
    on_hosts = [placed.count(name) for name in names]
    in_zones = [sum(on_hosts[zone::2]) for zone in range(2)]
    match seed % 6:
        case 1 | 3:
            return max(on_hosts) > 1
        case 2:
            return max(in_zones) - min(in_zones) > 1
        case 5:
            return max(on_hosts) - min(on_hosts) > 1
    return False


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> Object:
    """What a command says of a dump."""
    code = run([*arguments, "-o", "json"])
    out, err = capsys.readouterr()
    assert code in (0, 1), err
    found: Object = json.loads(out)
    return found


def test_figures_come_true(
    control_plane: Cluster,
    real_namespace: str,
    harbour: Harbour,
    tmp_path: Path,
    add_nodes: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As many as capacity says are bound, and no pod more; simulate says so, and places none where it can't be."""
    namespace, api, mine = real_namespace, control_plane.api, f"mine-{secrets.token_hex(4)}"
    path = pods_path(namespace)
    cases = {seed: case(seed, mine) for seed in SEEDS}
    for nodes, there, _ in cases.values():
        add_nodes(control_plane, nodes)
        api.create_many(path, there)
    dump = tmp_path / "dump.json"
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig")
    subprocess.run([BERTH, "dump", "--kubeconfig", kubeconfig, "-f", dump], check=True)
    fits: dict[int, int] = {}
    simulated: dict[int, dict[str, str]] = {}
    for seed, (_, _, made) in cases.items():
        template = {"metadata": {"labels": made["metadata"]["labels"]}, "spec": {**made["spec"], "schedulerName": "b"}}
        spec = {"selector": {"matchLabels": made["metadata"]["labels"]}, "template": template, "replicas": 1}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
        deployment["metadata"] = {"name": made["metadata"]["name"], "namespace": namespace}
        file = tmp_path / f"{seed}.json"
        file.write_text(json.dumps(deployment))
        answer = answered(capsys, "capacity", "-f", str(file), "--cluster", str(dump))
        assert answer["exhausted"] is True
        fits[seed] = answer["fits"]
        spec["replicas"] = fits[seed] + 2
        file.write_text(json.dumps(deployment))
        outcome = answered(capsys, "simulate", "-f", str(file), "--cluster", str(dump))
        simulated[seed] = {one["pod"]: one["node"] for one in outcome["placed"]}
        assert len(simulated[seed]) == fits[seed]
        assert sum(one["pods"] for one in outcome["waiting"]) == 2

    placed = [(seed, i, where) for seed, nodes in simulated.items() for i, where in enumerate(nodes.values())]
    assert placed
    for seed, i, name in placed:
        body = json.loads(json.dumps(cases[seed][2]))
        body["metadata"]["name"] = f"as-simulated-{seed}-{i}"
        body["spec"] |= {"nodeName": name, "schedulerName": "nobody"}
        api.create(path, body)
    assert checks.overfull(api) == []
    names = {seed: [one["metadata"]["name"] for one in nodes] for seed, (nodes, _, _) in cases.items()}
    assert [seed for seed, nodes in simulated.items() if broken(seed, names[seed], [*nodes.values()])] == []
    for seed, i, _ in placed:
        api.delete(f"{path}/as-simulated-{seed}-{i}")

    scheduler = harbour.berth(control_plane).scheduler_name
    wanted = [(seed, i) for seed, number in fits.items() for i in range(number + 2)]
    bodies = []
    for seed, i in wanted:
        body = json.loads(json.dumps(cases[seed][2]))
        body["metadata"]["name"] = f"{APP.format(seed)}-{i}"
        body["spec"]["schedulerName"] = scheduler
        bodies.append(body)
    api.create_many(path, bodies)

    def decided() -> list[Object] | None:
        pods = [one for one in api.list(path) if one["spec"]["schedulerName"] == scheduler]
        bound = [one for one in pods if checks.node_of(one)]
        waiting = [one for one in pods if not checks.node_of(one) and checks.condition(one).get("status") == "False"]
        if len(bound) + len(waiting) != len(wanted) or len(bound) < sum(fits.values()):
            return None
        return bound

    bound = wait_for("all pods to be bound or to wait", decided, checks.BOUND, 0.2)
    where: dict[int, list[str]] = {seed: [] for seed in fits}
    for one in bound:
        where[int(one["metadata"]["labels"]["app"].rpartition("-")[2])].append(checks.node_of(one))
    assert {seed: len(nodes) for seed, nodes in where.items()} == fits
    assert [seed for seed, nodes in where.items() if broken(seed, names[seed], nodes)] == []
    assert checks.overfull(api) == []
