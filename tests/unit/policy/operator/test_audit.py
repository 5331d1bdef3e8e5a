"""Audits: which objects count, for which policy, and what happens with kinds that can't be listed."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from podberth.kube.errors import ApiError
from podberth.kube.flow import API, Lane
from podberth.kube.resources import OWNERS
from podberth.policy import impact
from podberth.policy.operator import audit as module
from podberth.policy.operator.audit import Audit, Audits, Result, Total
from podberth.policy.operator.judge import Stored, revision_of
from podberth.policy.operator.listing import DEFAULT_KINDS, KindError, resource
from podberth.policy.spec import Policies
from tests.unit.policy.build import needs, policies, policy, rule

FORBID = policy("forbid", rule(needs("bad", "Exists"), reject=True), mode="observe", namespace="team")
LABEL = policy("label", rule(set_labels={"team": "x"}), namespace="team")


class Lists:
    """Collections, page by page."""

    def __init__(self, **collections: list[dict[str, Any]]) -> None:
        self.collections = collections
        self.size = 2
        self.asked: list[str] = []

    async def get(self, path: str, *, query: str = "", lane: Lane = API, tries: int = 1) -> bytes:
        """A page; kinds that are not there are forbidden."""
        self.asked.append(path)
        plural = path.rpartition("/")[2]
        if plural not in self.collections:
            raise ApiError(403, "Forbidden", f"no {plural}")
        start = int(parse_qs(query).get("continue", ["0"])[0])
        items = self.collections[plural]
        end = start + self.size
        metadata = {"continue": str(end)} if end < len(items) else {}
        kind = {"pods": "PodList", "configmaps": "ConfigMapList", "replicasets": "ReplicaSetList"}[plural]
        version = "apps/v1" if plural == "replicasets" else "v1"
        return json.dumps(
            {"kind": kind, "apiVersion": version, "metadata": metadata, "items": items[start:end]}
        ).encode()


def item(name: str, annotations: dict[str, str] | None = None, **labels: str) -> dict[str, Any]:
    """An object as it is in a list: without its kind."""
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main"}]},
    }


async def audited(
    lists: Lists, *kinds: str, found: Policies | None = None, exempt: frozenset[str] = frozenset()
) -> Result:
    """The result for the namespace `team`."""
    audit = Audit(lists, map(resource, kinds), exempt)  # type: ignore[arg-type]
    return await audit.run("team", found or policies(FORBID, LABEL))


async def test_counts() -> None:
    """All pages are read; each policy is told what it would do, and the total what those that enforce would."""
    maps = [item("a", team="x"), item("b", bad="1", team="y"), item("c"), item("d", bad="2", team="x"), item("e")]
    result = await audited(Lists(configmaps=maps), "configmaps")
    assert result.total == Total(objects=5, rejected=0, mutated=3)
    forbid, label = result.policies["forbid"], result.policies["label"]
    assert (forbid.objects, forbid.rejected, forbid.mutated) == (5, 2, 0)
    assert forbid.examples == ["ConfigMap team/b", "ConfigMap team/d"]
    assert (label.objects, label.rejected, label.mutated) == (5, 0, 3)


async def test_pods_are_pods() -> None:
    """Items of a list carry no kind, and pods are still judged as pods: by QoS class, mirror pods exempt."""
    best_effort = policy(
        "class",
        rule(annotations=needs("scheduler.alpha.kubernetes.io/qos", "In", "BestEffort"), reject=True),
        namespace="team",
    )
    pods = [item("one"), item("mirror", {"kubernetes.io/config.mirror": "x"})]
    result = await audited(Lists(pods=pods), "pods", found=policies(best_effort))
    assert result.total == Total(objects=1, rejected=1, mutated=0)


async def test_examples_are_few() -> None:
    """A policy that hits everything names ten objects and counts all."""
    maps = [item(f"m{number:02}", bad="1") for number in range(30)]
    result = await audited(Lists(configmaps=maps), "configmaps")
    assert result.policies["forbid"].rejected == 30
    assert len(result.policies["forbid"].examples) == 10


async def test_forbidden_kinds_are_left_out_and_said() -> None:
    """What can't be listed is a problem in the report, and the other kinds are counted."""
    result = await audited(Lists(configmaps=[item("a")]), "secrets", "configmaps", found=policies(FORBID))
    assert result.total.objects == 1
    assert result.problems == ["can't list secrets: 403 Forbidden: no secrets"]


async def test_exempt_namespaces_are_not_read() -> None:
    """Where no policy applies nothing is listed."""
    lists = Lists(configmaps=[item("a")])
    result = await audited(lists, "configmaps", exempt=frozenset({"team"}))
    assert result.total.objects == 0
    assert not lists.asked


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pods", "/api/v1/namespaces/n/pods"),
        ("deployments.apps", "/apis/apps/v1/namespaces/n/deployments"),
        ("ingresses.networking.k8s.io", "/apis/networking.k8s.io/v1/namespaces/n/ingresses"),
        ("widgets.v1alpha1.example.com", "/apis/example.com/v1alpha1/namespaces/n/widgets"),
    ],
)
def test_kinds(name: str, path: str) -> None:
    """Kinds are named as for kubectl: by plural, group, and version where it can't be known."""
    assert resource(name).path("n") == path


@pytest.mark.parametrize("name", ["", ".apps", "widgets.example.com"])
def test_unknown_kinds(name: str) -> None:
    """A kind that can't be found is refused at the command line, not at the first audit."""
    with pytest.raises(KindError, match="want PLURAL"):
        resource(name)


def test_default_kinds_hold_no_secrets() -> None:
    """The operator does not ask for the right to read Secrets."""
    assert all(resource(name).plural != "secrets" for name in DEFAULT_KINDS)


def replica_set(selector: dict[str, str], **labels: str) -> dict[str, Any]:
    """A ReplicaSet as it is in a list, whose pods get these labels."""
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main"}]}}
    spec = {"selector": {"matchLabels": selector}, "template": template}
    return {"metadata": {"name": "web", "namespace": "team"}, "spec": spec}


@pytest.mark.parametrize("mode", ["enforce", "observe"])
@pytest.mark.parametrize(
    ("owner", "lost"),
    [
        pytest.param(replica_set({"team": "y"}, team="y"), True, id="its label"),
        pytest.param(replica_set({"app": "y"}, app="y", team="y"), False, id="another label"),
        pytest.param(replica_set({"team": "x"}, team="x"), False, id="the same value"),
    ],
)
async def test_owners_that_lose_what_they_make_are_named(owner: dict[str, Any], lost: bool, mode: str) -> None:
    """An audit looks at owners as well, which do not count as objects unless their kind is audited."""
    served = Lists(configmaps=[item("a", team="y")], replicasets=[owner])
    label = policy("label", rule(set_labels={"team": "x"}), mode=mode, namespace="team")
    result = await audited(served, "configmaps", found=policies(label))
    counts = result.policies["label"]
    assert (counts.objects, counts.mutated) == (1, 1)
    told = 'ReplicaSet team/web, by label team="x" of label/rules[0]'
    assert counts.lost == ([told] if lost else [])


async def test_owners_are_read_where_labels_are_written() -> None:
    served = Lists(configmaps=[item("a")])
    result = await audited(served, "configmaps", found=policies(FORBID))
    assert served.asked == ["/api/v1/namespaces/team/configmaps"]
    assert result.problems == []
    result = await audited(served, "configmaps", found=policies(LABEL))
    assert "can't list replicasets apps: 403 Forbidden: no replicasets" in result.problems
    assert result.policies["label"].problems == result.problems


def test_every_kind_of_owner_can_be_read() -> None:
    """The kinds whose selectors are looked at are those that have a place in the API."""
    assert OWNERS.keys() == impact.OWNERS


@pytest.mark.parametrize("denied", [1, 2], ids=["for a moment", "for good"])
async def test_a_list_that_fails_is_tried_again_before_the_audit_counts(
    monkeypatch: pytest.MonkeyPatch, denied: int
) -> None:
    """An API server that has just started denies lists for a moment: that is not told of owners for the next hour."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    lists = Lists(pods=[item("a")])
    (forbid,) = policies(FORBID).policies
    found, get = [Stored("forbid", "team", "uid", "1", 1, 1, {}, forbid)], lists.get
    asked = 0

    async def denies(path: str, **given: Any) -> bytes:
        nonlocal asked
        asked += 1
        if asked <= denied:
            raise ApiError(403, "Forbidden", "rights are not read yet")
        return await get(path, **given)

    monkeypatch.setattr(lists, "get", denies)

    async def read(_namespace: str) -> list[Stored]:
        return found

    counted = asyncio.Event()
    audit = Audit(lists, [resource("pods")], frozenset())  # type: ignore[arg-type]
    audits = Audits(audit, read, lambda _namespace: counted.set(), 3600.0)
    assert audits.of("team", revision_of(found)) == {}
    running = asyncio.create_task(audits.run())
    async with asyncio.timeout(60):
        await counted.wait()
    running.cancel()
    problems = audits.of("team", revision_of(found))["forbid"].problems
    assert problems == ([] if denied == 1 else ["can't list pods: 403 Forbidden: rights are not read yet"])


async def test_a_dear_audit_rests_before_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a kind can't be listed: else whoever edits policies there has each audit made twice."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(module, "REST_COST", 0.001)
    lists = Lists(pods=[item("a")])
    (forbid,) = policies(FORBID).policies
    found, get = [Stored("forbid", "team", "uid", "1", 1, 1, {}, forbid)], lists.get
    denied = asyncio.Event()

    async def denies(path: str, **given: Any) -> bytes:
        if "services" in path:
            denied.set()
            raise ApiError(403, "Forbidden", "no")
        return await get(path, **given)

    monkeypatch.setattr(lists, "get", denies)

    async def read(_namespace: str) -> list[Stored]:
        return found

    counted: list[str] = []
    audit = Audit(lists, map(resource, ("pods", "services")), frozenset())  # type: ignore[arg-type]
    audits = Audits(audit, read, counted.append, 3600.0)
    audits.of("team", revision_of(found))
    running = asyncio.create_task(audits.run())
    async with asyncio.timeout(60):
        await denied.wait()
    for _ in range(100):  # turns of the loop: it would be tried again in one of the next
        await asyncio.sleep(0)
    running.cancel()
    assert counted == []


async def test_of_a_namespace_without_policies_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenants make and delete namespaces all day."""
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    (forbid,) = policies(FORBID).policies
    found = [Stored("forbid", "team", "uid", "1", 1, 1, {}, forbid)]
    counted, emptied = asyncio.Event(), asyncio.Event()

    async def read(_namespace: str) -> list[Stored]:
        if not found:
            emptied.set()
        return list(found)

    audit = Audit(Lists(pods=[item("a")]), [resource("pods")], frozenset())  # type: ignore[arg-type]
    audits = Audits(audit, read, lambda _namespace: counted.set(), 0.001)
    audits.of("team", revision_of(found))
    running = asyncio.create_task(audits.run())
    async with asyncio.timeout(60):
        await counted.wait()
        found.clear()
        await emptied.wait()
        await asyncio.sleep(0)
    running.cancel()
    assert not any("team" in held for held in vars(audits).values() if isinstance(held, dict | set))
