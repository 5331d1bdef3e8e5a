"""The example policies on the real API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import namespaces
from tests.controlplane.api import ApiError, Object
from tests.integration.admission import POLICIES, Policed

EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


def named(obj: Object, name: str, team: str) -> Object:
    """A case's object under a name and in a namespace of this test."""
    return {**obj, "metadata": {**obj["metadata"], "name": name, "namespace": team}}


def difference(case: Object, stored: Object | None, refused: ApiError | None) -> str:
    """What is not as the case expects; "" when all is."""
    expect = case["expect"]
    if expect.get("allowed", True) != (refused is None):
        return f"allowed: {refused is None} {refused}"
    if refused is not None:
        wanted = (expect.get("code", 403), str(expect.get("message", "")))
        return "" if refused.status == wanted[0] and wanted[1] in refused.message else str(refused)
    if stored is None:
        return ""
    for field in ("labels", "annotations"):
        held = stored["metadata"].get(field) or {}
        for key, value in (expect.get(field) or {}).items():
            if held.get(key) != value:
                return f"{field}[{key}]: {held.get(key)}"
    scheduler = stored.get("spec", {}).get("schedulerName")
    return "" if expect.get("schedulerName", scheduler) == scheduler else f"schedulerName: {scheduler}"


def play(policed: Policed, team: str, number: int, case: Object) -> str:
    """Do on the API server what a case is about; what is not as it expects."""
    operation = case.get("operation", "CREATE")
    path = PATHS[(case.get("object") or case["oldObject"])["kind"]].format(team)
    stored: Any = None
    try:
        if operation == "CREATE":
            stored = policed.api.create(f"{path}?dryRun=All", named(case["object"], f"case-{number}", team))
        elif operation == "UPDATE":
            held = policed.api.get(f"{path}/case-{number}")
            changed = named(case["object"], f"case-{number}", team)
            changed["metadata"]["resourceVersion"] = held["metadata"]["resourceVersion"]
            stored = policed.api.replace(f"{path}/case-{number}", changed)
        else:
            policed.api.delete(f"{path}/case-{number}")
    except ApiError as error:
        return difference(case, None, error)
    return difference(case, stored, None)


def test_examples(policed: Policed) -> None:
    """Each example's own test cases come true on the API server, as far as they are about requests alone."""
    teams: dict[str, tuple[str, list[tuple[int, Object]]]] = {}
    for directory in sorted(path for path in EXAMPLES.iterdir() if path.is_dir()):
        [suite] = [yaml.safe_load(path.read_text()) for path in (directory / "tests").iterdir()]
        cases = [(i, case) for i, case in enumerate(suite["cases"]) if "options" not in case]
        team = namespaces.create(policed.api, "team")
        teams[directory.name] = (team, cases)
        for number, case in cases:  # what was there before the policy
            if (old := case.get("oldObject")) is not None:
                policed.api.create(PATHS[old["kind"]].format(team), named(old, f"case-{number}", team))
    assert len(teams) >= 3
    policed.start()
    policed.wait_registered()
    for name, (team, _) in teams.items():
        body = yaml.safe_load((EXAMPLES / name / "policy.yaml").read_text())
        policed.api.create(POLICIES.format(team), body)
    policed.wait_known()
    wrong = {
        f"{name}: {case['name']}": found
        for name, (team, cases) in teams.items()
        for number, case in cases
        if (found := play(policed, team, number, case))
    }
    assert wrong == {}
    for team, _ in teams.values():
        namespaces.remove(policed.api, team, by_hand=True)
