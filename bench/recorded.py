"""Recordings beside a real control plane: what `berth replay` finds in them.

`python -m bench.recorded [--pods N] [--minutes M] [--keep DIR]`. First kube-scheduler places mixed pods while `berth
shadow --record` follows; replay computes the regret of its placements by the default profile's scores. Then `berth run
--record` places mixed pods that come and go; replay decides all of it again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import yaml

from tests.controlplane import namespaces
from tests.controlplane.cluster import ControlPlane
from tests.integration import replay
from tests.integration.berth import Berth, configuration
from tests.integration.component import BERTH, Component
from tests.integration.objects import pods_path
from tests.integration.volumes import Disks

PATIENCE = 1800.0
KUBE, OURS = "kube-recorded", "berth-recorded"
_AT_ONCE = 40


def shadowed(cluster: ControlPlane, pods: int, home: Path, random: Random) -> Path:
    """A recording of kube-scheduler, as it comes but for scoring all nodes."""
    disks = Disks(cluster, namespaces.create(cluster.api))
    disks.make_class()
    replay.furnish(cluster.api, disks.namespace, KUBE)
    bodies = replay.pods(pods, KUBE, random)
    directory = home / "shadow"
    kubeconfig = cluster.kubeconfig(home / "shadow.kubeconfig")
    words = ("shadow", "--of", KUBE, "--kubeconfig", str(kubeconfig), "--record", str(directory))
    shadow = Component("berth shadow", home, *words)
    shadow.start()
    disks.until("the shadow to follow", lambda: "follows" in shadow.log.read_text() or None, PATIENCE)
    scheduler = cluster.start_kube_scheduler({"percentageOfNodesToScore": 100}, scheduler_name=KUBE)
    try:
        for first in range(0, pods, _AT_ONCE):
            cluster.api.create_many(pods_path(disks.namespace), bodies[first : first + _AT_ONCE])
            time.sleep(0.2)
        disks.until("all pods to be bound or refused", replay.settled(cluster.api, disks.namespace), PATIENCE)
        time.sleep(3)
    finally:
        scheduler.kill()
        shadow.stop(60)
    namespaces.remove(cluster.api, disks.namespace, by_hand=True)
    return directory


def recorded(cluster: ControlPlane, minutes: float, home: Path, random: Random) -> Path:
    """A recording of Berth beside pods that come and go."""
    namespace = namespaces.create(cluster.api)
    replay.furnish(cluster.api, namespace, OURS)
    directory = home / "run"
    berth = Berth(home, OURS, cluster.kubeconfig(home / "run.kubeconfig"), configuration(OURS))
    berth.argv += ["--record", str(directory)]
    berth.start()
    berth.wait_synced()
    ends, number, going = time.monotonic() + 60 * minutes, 0, list[str]()
    while time.monotonic() < ends:
        bodies = replay.pods(_AT_ONCE, OURS, random)
        for body in bodies:
            body["metadata"]["name"] = f"r-{number}"
            going.append(body["metadata"]["name"])
            number += 1
        cluster.api.create_many(pods_path(namespace), bodies)
        for name in going[: max(0, len(going) - 400)]:
            cluster.api.delete(f"{pods_path(namespace)}/{name}")
            going.remove(name)
        time.sleep(1.0)
    berth.end()
    return directory


def main() -> None:
    """Run both, and print what replay says."""
    options = argparse.ArgumentParser(prog="python -m bench.recorded", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--pods", type=int, default=2000)
    options.add_argument("--nodes", type=int, default=100)
    options.add_argument("--minutes", type=float, default=3.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, help="where to keep the recordings")
    chosen = options.parse_args()
    random = Random(chosen.seed)
    home = chosen.keep or Path(tempfile.mkdtemp(prefix="berth-recorded-"))
    home.mkdir(exist_ok=True)
    default = home / "default.yaml"
    default.write_text(yaml.safe_dump(configuration("berth")))
    with ControlPlane() as cluster:
        cluster.api.create_many("/api/v1/nodes", replay.nodes(chosen.nodes, "node"))
        shadow = shadowed(cluster, chosen.pods, home, random)
        run = recorded(cluster, chosen.minutes, home, random)
    for words in (
        (str(shadow),),
        (str(shadow), "--diff", str(default)),
        (str(run),),
        (str(run), "--verify"),
    ):
        print(f"$ berth replay {' '.join(words)}", flush=True)
        subprocess.run([BERTH, "replay", *words], check=False)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
