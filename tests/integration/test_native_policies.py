"""Policies by the API server itself, by the webhook, and by the evaluator: on the real API server, one answer.

The webhook is the real admission server over TLS. `python -m tests.native --seeds 0-199` asks 5,000 times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from podberth.policy.keys import Reserved
from podberth.policy.native.admission_policies import name_of
from podberth.policy.native.policy_set import Source, policy_set
from podberth.policy.native.requests import SEEN_NAME
from podberth.policy.parse import parse
from tests.controlplane import namespaces
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import STRANGER, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.admission import Policed
from tests.native import questions
from tests.native.__main__ import start
from tests.native.town import RELEASE, SETS, Town, enforce_natively
from tests.unit.policy.build import policy, rule

SEEDS = 4
"""Of 25 requests each; other ones each time, and a difference names its seed."""
CLASSES = 40
"""Of the pods whose class is recorded; `--recorded` asks about all."""


@pytest.fixture(scope="module")
def natively(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane with a release's admission policies, and a log of what it was asked."""
    with ControlPlane(audit=True) as cluster:
        enforce_natively(cluster.api)
        yield cluster


def test_nobody_but_the_operator_writes_sets(natively: ControlPlane) -> None:
    """Whoever may write LimitRanges can't make a set or change one; the garbage collector may take owners away."""
    document = policy_set([Source(parse(policy("p", rule(reject=True))), "u", 1)], "default", RELEASE, Reserved())
    assert document.document is not None
    made, path = document.document, SETS.format("default")
    unmarked = {**made, "metadata": {"name": made["metadata"]["name"]}}
    cluster = natively
    cluster.kubectl("create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", f"--user={STRANGER}")
    stranger = cluster.api_as(cluster.tokens[STRANGER])
    body = {"metadata": {"name": "probe"}}
    probe = partial(cluster.api.tell, "POST", "/api/v1/namespaces/default/configmaps", body, dryRun="All")
    wait_for("the guard", lambda: stranger.tell("POST", path, made, dryRun="All").status == 403)
    assert stranger.tell("POST", path, unmarked).status == 201
    assert probe().status == 201, "without the release's label it is no set"
    one = f"{path}/{made['metadata']['name']}"
    with pytest.raises(ApiError, match="nobody but Berth's operator"):
        stranger.patch(one, {"metadata": {"labels": made["metadata"]["labels"]}})
    cluster.api.patch(one, {"metadata": {**made["metadata"], "ownerReferences": made["metadata"]["ownerReferences"]}})
    wait_for("the set to be in force", lambda: probe().status == 403)
    changes = ({"metadata": {"annotations": {"podberth.dev/rejects": ""}}}, {"spec": {"limits": [{"type": "Pod"}]}})
    for change in changes:
        with pytest.raises(ApiError, match="nobody but Berth's operator"):
            stranger.patch(one, change)
    stranger.patch(one, {"metadata": {"ownerReferences": []}})
    stranger.close()


def test_modes_that_change_nothing(natively: ControlPlane) -> None:
    """Mode warn tells the requester, mode observe the audit log; a dry run shows what tells of both to be in force."""
    api, name = natively.api, namespaces.create(natively.api)
    modes = {mode: policy(mode, rule(reject=True, message=mode), mode=mode) for mode in ("warn", "observe")}
    made = policy_set([Source(parse(one), "u", 1) for one in modes.values()], name, RELEASE, Reserved())
    assert made.document is not None and made.tells
    api.create(SETS.format(name), made.document)
    path = f"/api/v1/namespaces/{name}/configmaps"
    asked = partial(api.tell, "POST", path, {"metadata": {"name": SEEN_NAME}}, dryRun="All")
    wait_for("a warning", lambda: any(made.version in one for one in asked().warnings))
    told = api.tell("POST", path, {"metadata": {"name": "plain"}})
    assert told.status == 201
    assert [one.rpartition("': ")[2] for one in told.warnings] == ["would be rejected by warn/rules[0]: warn"]

    def observed() -> bool:
        found = [one for entry in natively.audit_events(name, "plain") for one in entry["annotations"].items()]
        return (f"{name_of(RELEASE, tells=True)}/observed", "observe/rules[0]:reject") in found

    wait_for("the audit", observed)


@pytest.mark.parametrize("stamp", [True, False], ids=["stamped", "not stamped"])
def test_three_ways(control_plane_binaries: Path, tmp_path: Path, stamp: bool) -> None:
    chance = random.Random()
    classes = questions.classes()
    sets = [
        *questions.generated(chance.sample(range(1_000_000), SEEDS)),
        *questions.examples(),
        classes._replace(requests=chance.sample(classes.requests, CLASSES)),
    ]
    with ControlPlane() as cluster:
        policed = Policed(cluster, tmp_path)
        try:
            start(policed, sets, stamp=stamp)
            towns = [Town(policed, one, stamp) for one in sets]
            for town in towns:
                town.open()
            policed.wait_known()
            differences = [line for town in towns for line in town.run()]
        finally:
            policed.unregister()
    assert sum(len(town.requests) for town in towns) >= SEEDS * 25 + CLASSES
    assert differences == []
