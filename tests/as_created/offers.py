"""What Berth offers for a pod that waits, done: its commands are run, and a pod of the workload gets a node."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.as_created.foretold import dump, remedies
from tests.as_created.seen import Pods, name_of, pods_there
from tests.as_created.town import Town
from tests.differential.generate.dice import Dice


class Offer(NamedTuple):
    """A change that was offered, its commands, and what is wrong with it; empty where it did what it promised."""

    workload: str
    text: str
    commands: list[str]
    wrong: str


def try_one(
    town: Town, spaces: list[str], home: Path, dice: Dice, wait: Callable[[Callable[[], bool]], bool]
) -> Offer | None:
    """Carry out one of the changes that are offered for a pod that waits; None if there are none with commands."""
    there = pods_there(town, spaces)
    waiting = {key: pod for key, of in sorted(there.items()) for pod in of if not pod["spec"].get("nodeName")}
    if not waiting:
        return None
    workload, pod = dice.one(*waiting.items())
    dumped = home / "dump.json"
    dump(town.kubeconfig, dumped)
    offered = [each for each in remedies(dumped, town.berth.config, name_of(pod)) if each.commands]
    if not offered:
        return None
    remedy = dice.one(*offered)
    before = _bound(there, workload)
    for command in remedy.commands:
        done = subprocess.run(
            ["bash", "-c", command],
            env={
                "PATH": f"{town.plane.tool('kubectl').parent}:{os.environ['PATH']}",
                "KUBECONFIG": str(town.kubeconfig),
                "HOME": str(home),
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            return Offer(workload, remedy.text, remedy.commands, f"{command} gave {done.returncode}: {done.stderr}")

    def placed() -> bool:
        new = _bound(pods_there(town, spaces), workload)
        return any(node in remedy.nodes for uid, node in new.items() if uid not in before)

    wrong = "" if wait(placed) else f"no pod of it got one of {', '.join(remedy.nodes)}"
    return Offer(workload, remedy.text, remedy.commands, wrong)


def _bound(pods: Pods, workload: str) -> dict[str, str]:
    return {
        pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods.get(workload, ()) if pod["spec"].get("nodeName")
    }
