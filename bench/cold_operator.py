"""A cold start of `berth operator` beside many namespaces: until each policy is enforced, and the memory that it takes.

`python -m bench.cold_operator [--namespaces 2000] [--policies 1]`, on kube-apiserver and etcd of the machine. Printed
are the seconds from the start of the process until every status says Native, and until the move is over, and the
process' peak of memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.ship import POLICIES, Ship, rejects, wait_served

PATIENCE = 600.0
WRITERS = 8


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(prog="python -m bench.cold_operator", description=__doc__)
    parser.add_argument("--namespaces", type=int, default=2000)
    parser.add_argument("--policies", type=int, default=1, help="policies of each namespace")
    asked = parser.parse_args()
    with ControlPlane() as cluster, tempfile.TemporaryDirectory() as home:
        wait_served(cluster)
        ship = Ship(cluster, Path(home))
        api = cluster.api
        head = {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy"}

        def fill(number: int) -> None:
            name = f"n{number:05}"
            api.create("/api/v1/namespaces", {"metadata": {"name": name}})
            for one in range(asked.policies):
                body = {**head, "metadata": {"name": f"p{one}"}, "spec": {"rules": [rejects(f"bad{one}", "Exists")]}}
                api.create(POLICIES.format(name), body)

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(fill, range(asked.namespaces)))
        print(f"{asked.namespaces} namespaces with {asked.policies} policies each", flush=True)
        began = time.monotonic()
        replica = ship.start("--enforcement=auto", "--webhook=", "--audit-interval=0", ready=False, everywhere=True)

        def all_native() -> bool:
            lines = (one for one in replica.lines("status written") if one.get("enforced") == "Native")
            enforced = {(one["namespace"], one["name"]) for one in lines}
            return len(enforced) == int(asked.namespaces) * int(asked.policies)

        wait_for("every policy to be enforced", all_native, PATIENCE, 2.0)
        print(f"{time.monotonic() - began:.0f} s: enforced, peak {replica.peak_memory_mb():.0f} MB", flush=True)
        over = "policies are enforced by the API server itself"
        wait_for("the move to be over", lambda: replica.lines(over), PATIENCE)
        print(f"{time.monotonic() - began:.0f} s: the move is over, peak {replica.peak_memory_mb():.0f} MB")
        replica.stop(30.0)
        ship.close()


if __name__ == "__main__":
    main()
