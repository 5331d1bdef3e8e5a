"""`berth demo --kubeconfig` on the real control plane: the same story, and nothing left of it."""

import subprocess
import sys
from pathlib import Path

from tests.controlplane.cluster import Cluster

PROGRAM = "import sys; from podberth.cli.main import run; sys.exit(run(sys.argv[1:]))"
KINDS = ("/api/v1/nodes", "/api/v1/namespaces", "/api/v1/pods")


def left(cluster: Cluster) -> list[str]:
    """What is in the cluster that the story could have made."""
    return [item["metadata"]["name"] for path in KINDS for item in cluster.api.get(path)["items"]]


def test_tells_its_story_and_leaves(control_plane: Cluster, tmp_path: Path) -> None:
    """All pods of the story are bound through the real API, and afterwards the cluster is as it was."""
    before = left(control_plane)
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "demo", "--kubeconfig", str(kubeconfig), "--out", str(tmp_path / "page.html")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "✓ report-0 → " in done.stdout
    assert "0  points of regret" in done.stdout
    assert "is gone." in done.stdout
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert left(control_plane) == before
