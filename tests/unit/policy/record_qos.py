"""Records qos.jsonl: pod specs by a seeded generator, and what Kubernetes' own functions say of them.

`python -m tests.unit.policy.record_qos --check` asks them again about what is recorded and says where they differ;
`--seed N --cases N` writes new ones. The functions are in tests/controlplane/qos/main.go, built on the way (minutes the
first time; Go comes along as for `make controlplane`).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.controlplane.build import QOS

Object = dict[str, Any]
RECORDED = Path(__file__).parent / "qos.jsonl"
AMOUNTS = {
    "cpu": ("0", "1", "1000m", "1m", "0.1m", "0.5", "2", "1e3"),
    "memory": ("0", "64Mi", "1Gi", "1024Mi", "1G", "0.5"),
    "ephemeral-storage": ("0", "1Gi"),
    "hugepages-2Mi": ("0", "4Mi"),
    "example.com/gpu": ("0", "1"),
}


def resources(rng: random.Random, names: tuple[str, ...]) -> Object:
    """Requests and limits, equal ones often."""
    limits = {name: rng.choice(AMOUNTS[name]) for name in names if rng.random() < 0.6}
    requests = {name: rng.choice(AMOUNTS[name]) for name in names if rng.random() < 0.5}
    if rng.random() < 0.5:
        requests = {**requests, **{name: amount for name, amount in limits.items() if rng.random() < 0.8}}
    return {key: amounts for key, amounts in (("limits", limits), ("requests", requests)) if amounts}


def spec(rng: random.Random) -> Object:
    """A pod spec, as far as its class depends on it."""
    plain = ("cpu", "memory")
    names = plain if rng.random() < 0.6 else tuple(AMOUNTS)

    def container(name: str, sidecar: float) -> Object:
        found: Object = {"name": name}
        if rng.random() < 0.85:
            found["resources"] = resources(rng, names)
        if rng.random() < sidecar:
            found["restartPolicy"] = "Always"
        return found

    found: Object = {"containers": [container(f"c{i}", 0.0) for i in range(rng.randint(1, 3))]}
    if rng.random() < 0.4:
        found["initContainers"] = [container(f"i{i}", 0.5) for i in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        found["resources"] = resources(rng, (*plain, "hugepages-2Mi"))
    if rng.random() < 0.1:
        found["overhead"] = {"cpu": "10m"}
    return found


def ask(specs: list[Object]) -> list[Object]:
    """The answers of the real functions."""
    lines = "".join(json.dumps(one) + "\n" for one in specs)
    done = subprocess.run([QOS.command()], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [{**(answer := json.loads(line)), "seen": narrowed(answer["seen"])} for line in done.stdout.splitlines()]


def narrowed(seen: Object) -> Object:
    """Of a defaulted spec what the class depends on."""

    def container(one: Object) -> Object:
        return {key: one[key] for key in ("name", "resources", "restartPolicy") if key in one}

    kept: Object = {key: seen[key] for key in ("resources", "overhead") if key in seen}
    for key in ("containers", "initContainers"):
        if key in seen:
            kept[key] = [container(one) for one in seen[key]]
    return kept


def check() -> int:
    """Compare what is recorded; the number of differences."""
    recorded = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    wrong = 0
    for case, answer in zip(recorded, ask([case["spec"] for case in recorded]), strict=True):
        if (
            any(case[key] != answer[key] for key in ("computed", "stored"))
            or case.get("seen", answer["seen"]) != (answer["seen"])
        ):
            wrong += 1
            print(json.dumps({"recorded": case, "answer": answer}))
    print(f"{len(recorded)} recorded, {wrong} differ", file=sys.stderr)
    return wrong


def main() -> int:
    """Check, or record."""
    options = argparse.ArgumentParser(prog="python -m tests.unit.policy.record_qos")
    options.add_argument("--check", action="store_true")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--cases", type=int, default=300)
    chosen = options.parse_args()
    if chosen.check:
        return 1 if check() else 0
    rng = random.Random(chosen.seed)
    specs = [spec(rng) for _ in range(chosen.cases)]
    rows = [{"spec": one, **answer} for one, answer in zip(specs, ask(specs), strict=True)]
    RECORDED.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
