"""The act about policies: one pod is refused, another is sent to a profile of ours that its author never named.

What kubectl would print is shown as it would print it: from the API server's answers, not from what we know.
"""

import msgspec

from podberth.kube.errors import ApiError
from podberth.kube.resources import METADATA_POLICIES, PODS
from podberth.policy.keys import DEFAULT_SCHEDULER, QOS, SCHEDULER_NAME
from podberth.testing.demo.objects import Object, pod
from podberth.testing.demo.play import Play
from podberth.testing.demo.policed import Policed

OWNER = "owner"


async def governed(play: Play) -> None:
    """Two policies, a pod for each."""
    title = "Policies decide which objects may be created, and which scheduler gets a pod"
    if not play.setting.own_server:
        await play.act(title, "Left out on this cluster: its webhooks would be asked about everybody's objects.")
        return
    await play.act(
        title,
        "Berth's admission server is up, and the API server asks it about every create, over HTTPS. One policy wants "
        "an owner on every object; the other sends pods that ask for nothing to the profile that packs.",
    )
    policies = [require_owner(), route_best_effort(play.setting.packer)]
    async with Policed(play.client.connection, play.setting.namespace, policies):
        names = [policy["metadata"]["name"] for policy in policies]
        lines = ["$ kubectl apply -f policies.yaml", *(f"metadatapolicy.podberth.dev/{name} created" for name in names)]
        await play.show("change", "Two policies are applied", lines)
        await _refused(play, "stray-0")
        await _routed(play, "sweep-0")


async def _refused(play: Play, name: str) -> None:
    """A pod without an owner."""
    lines = [f"$ kubectl create -f {name}.yaml"]
    try:
        await play.client.create(PODS.path(play.setting.namespace), msgspec.json.encode(_modest(name)))
    except ApiError as error:
        lines.append(f"Error from server ({error.reason}): {error.message}")
        await play.show("rejected", f"{name} is refused: it has no owner label", lines, beats=2.0)
        return
    raise RuntimeError(f"pod {name} was to be refused")


async def _routed(play: Play, name: str) -> None:
    """A pod that asks for nothing, not even for a scheduler."""
    sent = _modest(name, **{OWNER: "ann"})
    await play.create(sent)
    path = PODS.path(play.setting.namespace, name)
    stored = msgspec.json.decode(await play.client.get(path))
    notes = stored["metadata"]["annotations"]
    lines = [
        f"$ kubectl create -f {name}.yaml",
        f"pod/{name} created",
        f"Its author named no scheduler, which means {DEFAULT_SCHEDULER}. What is stored says otherwise:",
        f"  {QOS}: {notes[QOS]}",
        f"  {SCHEDULER_NAME}: {notes[SCHEDULER_NAME]}",
        f"  spec.schedulerName: {stored['spec']['schedulerName']}",
    ]
    scheduler = stored["spec"]["schedulerName"]
    await play.show("change", f"{name} is sent to {scheduler}", lines, pod=name, puts={name: ""}, beats=2.0)
    await play.show_outcome(name)


def require_owner() -> Object:
    """Refuse what nobody owns."""
    return _policy(
        "require-owner",
        {
            "name": "owner-missing",
            "policyPredicate": {"labelSelector": {"matchExpressions": [{"key": OWNER, "operator": "DoesNotExist"}]}},
            "policyAction": {"reject": True, "message": f'add the label "{OWNER}": who answers for this?'},
        },
    )


def route_best_effort(scheduler: str) -> Object:
    """Send pods without requests and limits to this scheduler."""
    return _policy(
        "route-best-effort",
        {
            "name": "best-effort",
            "policyPredicate": {"annotationSelector": {"matchLabels": {QOS: "BestEffort"}}},
            "policyAction": {"updatedAnnotations": {SCHEDULER_NAME: scheduler}},
        },
    )


def _policy(name: str, rule: Object) -> Object:
    head = {"apiVersion": METADATA_POLICIES.api_version, "kind": METADATA_POLICIES.kind}
    return {**head, "metadata": {"name": name}, "spec": {"rules": [rule]}}


def _modest(name: str, **labels: str) -> Object:
    """A pod without requests, limits and a scheduler's name."""
    found = pod(name, "", cpu=0, memory=0)
    found["metadata"]["labels"] |= labels
    del found["spec"]["schedulerName"]
    del found["spec"]["containers"][0]["resources"]
    return found
