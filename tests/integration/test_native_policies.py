"""Policies by the API server itself, by the webhook, and by the evaluator: on the real API server, one answer.

The webhook is the real admission server over TLS. `python -m tests.native --seeds 0-199` asks 5,000 times.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from podberth.policy.keys import Reserved
from podberth.policy.native.policy_set import Source, policy_set
from podberth.policy.parse import parse
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


def test_nobody_but_the_operator_writes_sets(control_plane_binaries: Path) -> None:
    """Whoever may write LimitRanges can't make a set or change one; the garbage collector may take owners away."""
    document = policy_set([Source(parse(policy("p", rule(reject=True))), "u", 1)], "default", RELEASE, Reserved())
    assert document.document is not None
    made, path = document.document, SETS.format("default")
    unmarked = {**made, "metadata": {"name": made["metadata"]["name"]}}
    with ControlPlane() as cluster:
        enforce_natively(cluster.api)
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
        cluster.api.patch(
            one, {"metadata": {**made["metadata"], "ownerReferences": made["metadata"]["ownerReferences"]}}
        )
        wait_for("the set to be in force", lambda: probe().status == 403)
        changes = ({"metadata": {"annotations": {"podberth.dev/rejects": ""}}}, {"spec": {"limits": [{"type": "Pod"}]}})
        for change in changes:
            with pytest.raises(ApiError, match="nobody but Berth's operator"):
                stranger.patch(one, change)
        stranger.patch(one, {"metadata": {"ownerReferences": []}})
        stranger.close()


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
