"""Which requests of the claim for extended resources serve which container: kube-scheduler's function, and Berth's.

The kubelet gives containers their devices by that. It is not part of a decision, so the oracle does not tell it.
`python -m tests.differential.mappings --seeds 0-19` compiles `tables/mappings_test.go` with a copy of the plugin's
package and compares 100 pods a seed. With `--record` the answers are written down for the fast tests.
Exit code 0: no difference; 1: some.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from podberth.explain.objects.world import World
from podberth.model.devices import DeviceClass
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources.claims import extended_claim
from tests.conformance.comparison import Case
from tests.differential.fuzz import seeds_of
from tests.differential.generate.dice import Dice
from tests.differential.tables import copied_plugin, ran

RECORDED = Path(__file__).parent / "tables" / "mappings.jsonl.gz"
PER_SEED = 100
_RESOURCES = ("example.com/gpu", "example.com/nic", "deviceclass.resource.kubernetes.io/gpu")
_AMOUNTS = ("1", "1", "2", "2", "3", "4", "7", "0", "1k")


def served(seed: int, number: int) -> Case:
    """The pod of this name, with the classes that serve what it asks for: the same every time."""
    dice = Dice(f"mappings-{seed}-{number}")
    initial = [_container(dice, f"i{i}") for i in range(dice.one(0, 1, 1, 2, 3))]
    for one in initial:
        if dice.maybe(0.4):
            one["restartPolicy"] = "Always"
    spec: Case = {"containers": [_container(dice, f"c{i}") for i in range(dice.one(1, 1, 2, 3))]}
    if initial:
        spec["initContainers"] = initial
    meta = {"name": "p", "namespace": "default", "uid": "p"}
    chosen = dice.some(_RESOURCES, 1)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    return {"pod": pod, "classes": {name: f"class-{_RESOURCES.index(name)}" for name in chosen}}


def _container(dice: Dice, name: str) -> Case:
    requests = {one: dice.one(*_AMOUNTS) for one in dice.some(_RESOURCES, 0)}
    if dice.maybe(0.5):
        requests |= {"cpu": "1"}
    if dice.maybe(0.3):
        requests |= {"memory": "1Gi"}
    return {"name": name, "image": "busybox", "resources": {"requests": requests}}


def answered(asked: list[Case]) -> list[Case]:
    """What kube-scheduler's function says of each."""
    with tempfile.TemporaryDirectory(prefix="berth-mappings-") as folder:
        module, questions = Path(folder) / "plugin", Path(folder) / "asked.jsonl"
        copied_plugin(module, "mappings_test.go")
        questions.write_text("".join(json.dumps(one) + "\n" for one in asked))
        said = Path(folder) / "said.jsonl"
        return ran(module, "./dynamicresources", "TestMappings", said, BERTH_ASKED=str(questions))


def ours(asked: Case) -> dict[str, Any]:
    """What Berth says, in the words of the API."""
    world = World()
    pod = world.decode(asked["pod"])
    assert isinstance(pod, Pod)
    classes = {}
    for resource, name in asked["classes"].items():
        made = world.decode({"kind": "DeviceClass", "metadata": {"name": name}, "spec": {}})
        assert isinstance(made, DeviceClass)
        classes[resource] = made
    claim = extended_claim(pod.shape.containers, classes)
    requests = [
        {
            "name": one.name,
            "exactly": {
                "deviceClassName": one.exactly.device_class,
                "allocationMode": one.exactly.mode,
                "count": one.exactly.count,
            },
        }
        for one in claim.spec.requests
        if one.exactly is not None
    ]
    mappings = [
        {"containerName": one.container, "resourceName": one.resource, "requestName": one.request}
        for one in claim.mappings
    ]
    return {"requests": requests or None, "mappings": mappings or None}


def differences(asked: list[Case], wanted: list[Case]) -> list[str]:
    """All of them, as lines."""
    pairs = ((one, ours(one), want) for one, want in zip(asked, wanted, strict=True))
    return [f"{json.dumps(one)}\n  {got}\n  not {want}" for one, got, want in pairs if got != want]


def main() -> int:
    """Compare, and record."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.mappings", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="0-3", metavar="0-3")
    parser.add_argument("--record", action="store_true", help="write the answers for the fast tests")
    chosen = parser.parse_args()
    asked = [served(seed, number) for seed in chosen.seeds for number in range(PER_SEED)]
    wanted = answered(asked)
    found = differences(asked, wanted)
    if chosen.record:
        pairs = zip(asked, wanted, strict=True)
        text = "".join(json.dumps({**one, "want": want}, separators=(",", ":")) + "\n" for one, want in pairs)
        RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
    print("\n".join([*found, f"{len(asked):,} pods, {len(found)} differences"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
