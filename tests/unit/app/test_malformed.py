"""What a tenant writes that can't be read costs some lines of the log, and other namespaces have their own."""

from collections import Counter
from typing import Any

from structlog.testing import capture_logs

from podberth.kube.resources import PODS
from podberth.service.log import MOST_LINES
from tests.builders import pod

from .test_pod_groups_followed import Followed


async def test_lines_about_malformed_pods() -> None:
    """Pods that can't be read at all."""
    pods = [told(f"p{i}", namespace) for i, namespace in enumerate(["evil"] * 500 + ["team"] * 3)]
    for one in pods:
        one["spec"]["priority"] = "high"
    with capture_logs() as lines:
        await Followed().lists(PODS, pods)
    said = [line for line in lines if line["event"] == "an object can't be read and is left out"]
    assert Counter(line["key"][0] for line in said) == {"evil": MOST_LINES, "team": 3}


async def test_lines_about_parts_of_pods() -> None:
    """Pods of which parts can't be read."""
    pods = [told(f"p{i}", namespace) for i, namespace in enumerate(["evil"] * 500 + ["team"] * 3)]
    for one in pods:
        one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "much"}}
    with capture_logs() as lines:
        await Followed().lists(PODS, pods)
    said = [line for line in lines if line["event"] == "parts of a pod can't be read and are left out"]
    assert Counter(line["pod"].partition("/")[0] for line in said) == {"evil": MOST_LINES, "team": 3}


def told(name: str, namespace: str) -> dict[str, Any]:
    """A pod as a list shows it."""
    made: dict[str, Any] = pod(name, uid=name, namespace=namespace)
    made["metadata"]["resourceVersion"] = "5"
    return made
