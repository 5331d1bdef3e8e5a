"""A plugin that fails is named: its fault counts neither as no room, nor as a change that does not help."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from podberth.explain.explain import explain
from podberth.explain.explanation import Explanation
from podberth.explain.gangs.answer import FAILED, GroupExplanation
from podberth.explain.gangs.capacity import gang_capacity
from podberth.explain.gangs.explain import explain_group
from podberth.explain.gangs.gang import gang_of
from podberth.explain.objects.documents import Document
from podberth.explain.objects.manifest import workloads
from podberth.explain.simulate.arrivals import Batch, batches
from podberth.explain.simulate.capacity import capacity
from podberth.explain.simulate.plan import plan
from podberth.explain.simulate.simulation import UndecidedError
from podberth.explain.trial import placing
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.kit import ANYTHING, Cluster, Plugin, Pod
from podberth.model.pod_group import NATIVE, GroupKey
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, namespace, node, pod, profile
from tests.messages import without_place
from tests.unit.explain.gangs.dumps import group, member, members
from tests.unit.explain.simulate.test_plan import workload
from tests.unit.explain.story import world

When = Callable[[Pod, Cluster], bool]
SAID = 'running Filter plugin "Faulty": no idea'


def failing(when: When) -> Framework:
    """The default profile with a plugin that fails in these cases, and otherwise rejects nothing."""

    class Faulty(Plugin):
        name = "Faulty"
        depends_on = ANYTHING

        def filter(self, pod: Pod, cluster: Cluster) -> Any:
            """Fail."""
            if when(pod, cluster):
                raise RuntimeError("no idea")
            return ()

    return with_plugin(Faulty)


def with_plugin(plugin: type[Plugin]) -> Framework:
    """The default profile with this plugin."""
    plugin.__module__ = "outside"
    profiles = profile(plugins={"multiPoint": {"enabled": [{"name": plugin.name}]}})
    [made] = build(decode(configuration(profiles)), {**IN_TREE, plugin.name: plugin}).values()
    return made


def named(name: str) -> When:
    return lambda pod, cluster: pod.name == name


def explained(incoming: Object, framework: Framework, *there: Object) -> Explanation:
    known = world([namespace("default"), *there])
    decoded = known.decode(incoming)
    assert isinstance(decoded, Pod)
    return explain(decoded, framework, known.cluster, others=known.waiting.values())


def test_what_changes_do_to_others_is_not_known() -> None:
    """As if the other pod had no room, the change was said to do nothing for it."""
    answer = explained(
        pod("p", "1"), failing(named("other")), node("n", cordoned=True), pod("other", "1", labels={"b": "c"})
    )
    told = [(each.text, each.effects) for each in answer.remedies]
    assert told == [("uncordon n", None), ("add a node like n", None)]
    assert [without_place(note) for note in answer.notes] == [
        f"what the changes would do to other pods is not known: {SAID}"
    ]


def test_a_change_that_could_not_be_tried() -> None:
    """It was left out, as if it did not help."""

    def uncordoned(pod: Pod, cluster: Cluster) -> bool:
        return not cluster.nodes.unschedulable[: cluster.nodes.rows].any()

    answer = explained(pod("p", "1"), failing(uncordoned), node("n", cordoned=True))
    assert answer.outcome == "unschedulable"
    assert [each.text for each in answer.remedies] == ["add a node like n"]
    assert f"not every change could be tried: {SAID}" in map(without_place, answer.notes[:1])


def gang_answer(framework: Framework, *there: Object) -> GroupExplanation:
    known = world([namespace("default"), *there])
    gang = gang_of(GroupKey("default", "train", NATIVE), known.cluster)
    assert gang is not None
    return explain_group(gang, framework, known.cluster)


def test_a_gang_of_which_a_pod_can_not_be_decided() -> None:
    """It did not fit, and the message spoke of room."""
    answer = gang_answer(failing(named("train-1")), node("n", "8"), group(2), *members(2, "1"))
    assert answer.outcome == FAILED
    assert {without_place(answer.cause), without_place(answer.message)} == {SAID}


def test_a_change_for_a_gang_that_could_not_be_tried() -> None:
    """A larger request fits nowhere; what a smaller one would do is not known."""

    def smaller(pod: Pod, cluster: Cluster) -> bool:
        return pod.name.startswith("train") and pod.shape.requests["cpu"] < 4000

    answer = gang_answer(failing(smaller), node("n", "4"), group(2), member("train-0", "4"), member("train-1", "4"))
    assert answer.outcome == "unschedulable"
    assert f"not every change could be tried: {SAID}" in map(without_place, answer.notes[:1])


def test_a_claim_that_can_not_be_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The devices counted as free, though the pod was said to be on its node."""
    made = failing(named(""))
    known = world([namespace("default"), node("n")])
    incoming = known.decode(
        pod("p", "1") | {"spec": pod("p", "1")["spec"] | {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}}
    )
    assert isinstance(incoming, Pod)

    def reserve(*_: Any) -> None:
        raise PluginError("DynamicResources", "no idea", "Reserve")

    monkeypatch.setattr(made.plugin("DynamicResources"), "reserve", reserve)
    monkeypatch.setattr("podberth.explain.trial.best", lambda *_: known.cluster.nodes.live_row("n"))
    with placing(made, known.cluster) as place, pytest.raises(PluginError, match="DynamicResources"):
        place.put(incoming)


@contextmanager
def asked(made: Object, framework: Framework, *there: Object) -> Iterator[tuple[Any, Batch]]:
    known = world([namespace("default"), *there])
    document = json.dumps(workload("ReplicaSet", made, replicas=4)).encode()
    (found,) = workloads([Document("ReplicaSet", document, "")])
    yield known, Batch(found, known, None, "default", framework.profile.name)


@pytest.mark.parametrize("which", ["w-0", "w-1", "w-3"])
def test_capacity_is_not_known(which: str) -> None:
    """That a pod is not decided was the end of the room, or a traceback."""
    framework = failing(named(which))
    with asked(pod("t", "1"), framework, node("n", "8")) as (known, batch), pytest.raises(Exception) as failed:
        capacity(known.cluster, framework, batch)
    assert isinstance(failed.value, PluginError | UndecidedError)
    assert without_place(str(failed.value)) == SAID


def test_capacity_for_gangs_is_not_known() -> None:
    """As that for pods."""
    framework = failing(named("w-3"))
    with asked(pod("t", "1"), framework, node("n", "8"), group(4, "w")) as (known, batch):
        found = known.cluster.pod_groups.get(GroupKey("default", "w", NATIVE))
        assert found is not None
        with pytest.raises(UndecidedError, match=SAID):
            gang_capacity(known.cluster, framework, found, [batch])


def test_a_pod_of_a_crowd_that_is_not_decided() -> None:
    """It ended the simulation with a traceback."""
    framework = failing(named("w-2"))
    known = world([namespace("default"), node("n", "8")])
    document = Document("ReplicaSet", json.dumps(workload("ReplicaSet", pod("t", "1"), replicas=3)).encode(), "")
    coming = batches(workloads([document]), known, framework, None, "default")
    found = plan(known, framework, coming, added=[])
    assert [(each.pod, without_place(each.message)) for each in found.waiting] == [("default/w-2", SAID)]
