"""What kube-scheduler's own tests of devices ask, answered by its plugins and by Berth.

`python -m tests.differential.tables` copies the packages with upstream's tables of tests to a temporary folder,
compiles `tables/` with them, and runs it: each case's inputs come out as JSON. They are asked with the gates that are
on by default, whatever the case sets; one that Berth has as well is on if the case sets it. With `--record` the answers
are written down for the fast tests.
Exit code 0: no difference; 1: some.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.conformance.comparison import Case
from tests.controlplane import build, golang
from tests.differential.client import Oracle
from tests.differential.generate.configs import gated
from tests.differential.verdict import Verdict, judged

HERE = Path(__file__).parent
RECORDED = HERE / "tables" / "answers.jsonl.gz"
ALLOCATOR = "k8s.io/dynamic-resource-allocation"
PLUGIN = Path("pkg/scheduler/framework/plugins/dynamicresources")
OFF = frozenset(
    ("DRADeviceCompatibilityGroups", "DRADerivedAttributes", "DRAListTypeAttributes", "DRAOptionalNodeOperations")
)
"""Gates that are off by default: what cases set for them, the API server drops."""
SWITCHED = "DRAFractionalCapacityRange"
"""A gate that is off by default, and that a profile can switch on."""
_LINE = "status := testCtx.p.PreEnqueue(tCtx, tc.pod)\n"
"""Of the plugin's test: where all of a case is known."""


def allocator_cases(folder: Path) -> list[Case]:
    """The cases of the allocator's table."""
    version = build.VERSION.replace("v1.", "v0.", 1)
    module = folder / "allocator"
    _copy(golang.module(ALLOCATOR, version), module)
    ours = module / "structured" / "berthcases"
    ours.mkdir()
    shutil.copy(HERE / "tables" / "allocator_cases_test.go", ours)
    said = ran(module, "./structured/berthcases", "TestRecord", folder / "allocator.jsonl")
    return [_of_allocator(one) for one in _by_name(said)]


def plugin_cases(folder: Path) -> list[Case]:
    """The cases of the plugin's table, but for those about pods of a group: `groups.py` asks about such."""
    module = folder / "plugin"
    copied_plugin(module, "plugin_cases_test.go")
    table = module / "dynamicresources" / "dynamicresources_test.go"
    text = table.read_text()
    if text.count(_LINE) != 1:
        raise RuntimeError(f"{table.name}: expected {_LINE.strip()!r} once: upstream's test is another one now")
    table.write_text(text.replace(_LINE, "note(name, &tc, nodes)\n" + _LINE))
    said = ran(module, "./dynamicresources", "TestPlugin", folder / "plugin.jsonl")
    return [_of_plugin(one) for one in _by_name(said) if "schedulingGroup" not in one["pod"]["spec"]]


def copied_plugin(module: Path, test: str) -> None:
    """Make a module of the plugin's package, with one of our tests in it."""
    _copy(golang.module("k8s.io/kubernetes", build.VERSION) / PLUGIN, module / "dynamicresources")
    for name in ("go.mod", "go.sum"):
        shutil.copy(build.HERE / name, module)
    shutil.copy(HERE / "tables" / test, module / "dynamicresources")


def _by_name(said: list[Case]) -> list[Case]:
    return sorted(said, key=lambda one: str(one["name"]))


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for one in (target, *target.rglob("*")):
        if one.is_dir():
            one.chmod(0o755)


def ran(module: Path, package: str, test: str, output: Path, **variables: str) -> list[dict[str, Any]]:
    """The lines that a test writes. That upstream's own assertions fail is no matter: they are not what is asked."""
    command: list[str | Path] = [
        golang.find(),
        "test",
        "-mod=mod",
        "-count=1",
        "-run",
        f"^{test}$",
        package,
    ]
    environment = golang.environment() | {"BERTH_CASES": str(output), "GOFLAGS": "-buildvcs=false"} | variables
    done = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True)
    if not output.exists():
        raise golang.download_failure(f"running {test}", done.stdout + done.stderr)
    return [json.loads(line) for line in output.read_text().splitlines()]


def _of_allocator(said: dict[str, Any]) -> Case:
    """As a scheduling question: a pod with the claims, and a claim for each device that is allocated."""
    claims = [_claim(claim, i) for i, claim in enumerate(_apart(said["claims"] or ()))]
    held = [_holder(result, i) for i, result in enumerate(said["allocated"] or ())]
    objects = [
        _kind("v1", "Node", _with_room(said["node"])),
        *(_kind(_API, "DeviceClass", one) for one in said["classes"] or ()),
        *(_kind(_API, "ResourceSlice", one) for one in _apart(said["slices"] or ())),
        *(_kind(_API, "ResourceClaim", one) for one in (*claims, *held)),
    ]
    uses = [{"name": f"use-{i}", "resourceClaimName": one["metadata"]["name"]} for i, one in enumerate(claims)]
    gates = said["gates"] or []
    made = {"id": f"allocator/{said['name']}", "objects": objects, "pod": _pod(uses), "gates": gates}
    return made | ({"config": gated(SWITCHED, "DynamicResources")} if SWITCHED in gates else {})


_API = "resource.k8s.io/v1"
_CONTAINER = {"name": "main", "image": "registry.test/app:1"}


def _apart(objects: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Objects with names of their own: the table gives some of them the same, which an API server does not."""
    seen: Counter[str] = Counter()
    for one in objects:
        name = one["metadata"]["name"]
        number = seen[name]
        seen[name] += 1
        yield {**one, "metadata": {**one["metadata"], "name": f"{name}-{number}" if number else name}}


def _kind(version: str, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "apiVersion": version, "kind": kind}


def _pod(uses: list[dict[str, str]]) -> dict[str, Any]:
    meta = {"name": "pod", "namespace": "default", "uid": "pod"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [_CONTAINER], "resourceClaims": uses},
    }


def _claim(claim: dict[str, Any], number: int) -> dict[str, Any]:
    meta = {**claim["metadata"], "namespace": "default", "uid": f"claim-{number}"}
    return {**claim, "metadata": meta}


def _holder(result: dict[str, Any], number: int) -> dict[str, Any]:
    """A claim that has a device, or a share of one."""
    request = {
        "name": result["request"],
        "exactly": {"deviceClassName": "held", "allocationMode": "ExactCount", "count": 1},
    }
    return {
        "metadata": {"name": f"holder-{number}", "namespace": "default", "uid": f"holder-{number}"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def _of_plugin(said: dict[str, Any]) -> Case:
    """As a scheduling question; claims that are in flight are those that other pods are being bound with."""
    nodes = [_with_room(one) for one in said["nodes"]]
    known = {one["metadata"].get("uid") for one in said["claims"] or ()}
    flying = [{**one, "status": {}} for one in said["inFlight"] or () if one["metadata"].get("uid") not in known]
    objects = [
        *(_kind("v1", "Node", one) for one in nodes),
        *(_runnable(one) for one in said["pods"] or ()),
        *(_kind(_API, "ResourceClaim", one) for one in (*(said["claims"] or ()), *flying)),
        *(_kind(_API, "DeviceClass", one) for one in said["classes"] or ()),
        *(_kind(_API, _KIND_OF[_shape(one)], one) for one in said["objects"] or () if _shape(one) in _KIND_OF),
    ]
    pending = [_kind(_API, "ResourceClaim", one) for one in said["inFlight"] or ()]
    pod = _runnable(said["pod"])
    return {"id": f"plugin/{said['name']}", "objects": objects, "pod": pod, "pending": pending, "gates": []}


def _runnable(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, with a container if it has none."""
    spec = {**pod["spec"], "containers": pod["spec"].get("containers") or [_CONTAINER]}
    return _kind("v1", "Pod", {**pod, "spec": spec})


_KIND_OF = {"slice": "ResourceSlice", "rule": "DeviceTaintRule"}


def _shape(document: dict[str, Any]) -> str:
    """What an object without a kind is, by what it says."""
    spec = document.get("spec", {})
    return "slice" if "driver" in spec and "pool" in spec else "rule" if "taint" in spec else ""


def _with_room(node: dict[str, Any]) -> dict[str, Any]:
    """The node, with room for a pod: the tables ask one plugin, the oracle all of them."""
    status = node.get("status", {})
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", **status.get("allocatable", {})}
    return {**node, "status": {**status, "allocatable": room}}


def summary(vectors: list[Case], verdicts: list[Verdict]) -> str:
    """How many agree, and which ask for what is off by default."""
    kinds = Counter(verdict.kind for verdict in verdicts)
    off = Counter(gate for vector in vectors for gate in vector["gates"] if gate in OFF)
    lines = [f"{len(vectors)} cases: " + ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))]
    lines += [f"{number} are about {gate}, which is off by default" for gate, number in sorted(off.items())]
    return "\n".join(lines)


def main() -> int:
    """Ask, compare, and write the answers down."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.tables", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the answers for the fast tests")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="berth-tables-") as folder:
        asked = [*allocator_cases(Path(folder)), *plugin_cases(Path(folder))]
    answers = Oracle(build.ORACLE.command()).answers(asked)
    vectors = [{**case, **answer} for case, answer in zip(asked, answers, strict=True)]
    verdicts = [judged(vector) for vector in vectors]
    for verdict in verdicts:
        print("\n".join(verdict.texts), end="\n" if verdict.texts else "")
    print(summary(vectors, verdicts))
    if chosen.record:
        text = "".join(json.dumps(vector, separators=(",", ":"), sort_keys=True) + "\n" for vector in vectors)
        RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{len(vectors)} answers in {RECORDED.stat().st_size:,} bytes")
    return 1 if any(verdict.kind in ("different", "refused") for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
