"""What the chart makes of values: objects, or what Helm says against it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm"
Object = dict[str, Any]


class Chart:
    """The chart, through Helm, without a cluster."""

    def __init__(self, helm: Path, home: Path) -> None:
        self.helm = helm
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home)}

    def run(self, *args: str | Path, values: Object | None = None) -> subprocess.CompletedProcess[str]:
        """Run a helm command with these values; its exit code is the caller's to judge."""
        given = [] if values is None else ["--values=-"]
        return subprocess.run(
            [self.helm, *args, *given],
            env=self.environment,
            input=None if values is None else json.dumps(values),  # which is YAML, too
            capture_output=True,
            text=True,
            timeout=120,
        )

    def text(self, values: Object | None = None, release: str = "berth", namespace: str = "berth") -> str:
        """What `helm template` prints; a refusal fails the test."""
        done = self.run("template", release, CHART, f"--namespace={namespace}", values=values or {})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, values: Object | None = None, release: str = "berth", namespace: str = "berth") -> list[Object]:
        """The objects."""
        return list(documents(self.text(values, release, namespace)))

    def refusal(self, values: Object, release: str = "berth") -> str:
        """What Helm says against these values."""
        done = self.run("template", release, CHART, "--namespace=berth", values=values)
        assert done.returncode != 0, "rendered all the same"
        return done.stderr


def documents(text: str) -> Iterator[Object]:
    """The objects of a YAML stream."""
    return (document for document in yaml.load_all(text, yaml.CSafeLoader) if document)


def keys(objects: list[Object]) -> set[tuple[str, str, str]]:
    """(kind, namespace, name) of each; a key that comes twice is an error."""
    found = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in objects]
    assert len(found) == len(set(found)), "an object is rendered twice"
    return set(found)


def by_kind(objects: list[Object], kind: str) -> dict[str, Object]:
    """Those of a kind by name."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def containers(objects: list[Object]) -> dict[str, Object]:
    """The container of each Deployment, by component."""
    pods = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment"]
    return {container["name"]: container for pod in pods for container in pod["containers"]}
