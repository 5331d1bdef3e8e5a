"""The story on the embedded API server: real scheduler, real HTTP, and nothing told that did not happen."""

import pytest

from podberth.testing.demo.acts import ACTS
from podberth.testing.demo.cast import others
from podberth.testing.demo.recording import Act
from tests.unit.testing.demo.conftest import Told

SPREAD = ("db-0", "db-1", "db-2")


def final(told: Told) -> dict[str, str | None]:
    """pod → node at the end."""
    return {pod: node for step in told.recording.steps for pod, node in step.puts.items()}


def test_every_act_is_told(told: Told) -> None:
    """There is a chapter for each act, and each has steps."""
    assert len(told.recording.acts) == len(ACTS)
    assert {step.act for step in told.recording.steps} == set(range(len(ACTS)))
    assert [each.title for each in told.heard if isinstance(each, Act)] == [act.title for act in told.recording.acts]


def test_everything_is_bound_in_the_end(told: Told) -> None:
    """No pod of ours waits when the curtain falls."""
    assert all(final(told).values())
    assert ("28 of 28", "pods bound") in [row[:2] for row in told.recording.summary]


def test_the_database_is_in_three_zones(told: Told) -> None:
    """Required anti-affinity holds."""
    zones = {told.recording.nodes[final(told)[pod] or ""].zone for pod in SPREAD}
    assert zones == {"a", "b", "c"}


def test_web_pods_have_a_cache_in_their_zone(told: Told) -> None:
    """Required affinity holds."""
    where = final(told)
    nodes = told.recording.nodes
    caches = {nodes[where[pod] or ""].zone for pod in ("cache-0", "cache-1")}
    assert {nodes[where[f"web-{i}"] or ""].zone for i in range(5)} <= caches


def test_batch_pods_share_nodes(told: Told) -> None:
    """The packing profile leaves nodes alone that the spreading one would take."""
    where = final(told)
    assert len({where[f"batch-{i}"] for i in range(6)}) < 6


def test_the_training_job_goes_where_its_image_is(told: Told) -> None:
    """Of two nodes with a device for it it takes the one with the image, and the points say why."""
    step = told.step("train-0", "bound")
    assert step.node == "gpu-b"
    assert step.verdict is not None
    assert step.verdict.candidates[0].scores["ImageLocality"].weighted > 0
    assert {each.node for each in step.verdict.candidates} == {"gpu-a", "gpu-b"}
    titles = [step.title for step in told.recording.steps]
    assert "train-0-gpu has gpu-b/gpu-1, an A100 with 40Gi" in titles


def test_the_gated_pod_is_not_tried_before_its_gate_is_lifted(told: Told) -> None:
    """No decision is made on a gated pod."""
    assert told.step("migrate-0", "gated").lines[0].endswith("decisions on it so far: 0.")
    assert told.step("migrate-0", "bound").node


def test_policies_refuse_and_route(told: Told) -> None:
    """A pod without owner is refused in the policy's words; one that asks for nothing goes to the packing profile."""
    [refused] = [step for step in told.recording.steps if step.kind == "rejected"]
    assert refused.lines[1].startswith(
        'Error from server (Forbidden): admission webhook "mutate.metadatapolicy.podberth.dev" denied the request: '
        'MetadataPolicy "require-owner" rule "owner-missing": add the label "owner"'
    )
    assert "stray-0" not in told.recording.pods
    sent, bound = told.step("sweep-0", "change"), told.step("sweep-0", "bound")
    assert sent.lines[-1] == "  spec.schedulerName: berth-packed"
    assert bound.verdict is not None
    assert (bound.verdict.answer.profile, bound.node) == ("berth-packed", final(told)["sweep-0"])


def test_pods_of_others_stay_where_they_were(told: Told) -> None:
    """Their node at the end is the one they came with."""
    where = final(told)
    for pod in others():
        assert where[pod["metadata"]["name"]] == pod["spec"]["nodeName"]
        assert not told.recording.pods[pod["metadata"]["name"]].mine


def test_the_pending_pod_is_explained_node_by_node(told: Told) -> None:
    """Every node has its numbers, and the change that the story makes is one that was offered."""
    waiting = [step for step in told.recording.steps if step.explanation is not None]
    assert [step.pod for step in waiting] == ["report-0"]
    found = waiting[0].explanation
    assert found is not None
    assert {node for node, _ in found.nodes} == set(told.recording.nodes)
    assert dict(found.nodes)["c3"] == "cordoned"
    assert dict(found.nodes)["a1"].startswith("needs 6 cpu, ")
    assert found.taken is not None
    assert found.remedies[found.taken] == ("uncordon c3", "c3")


def test_the_change_frees_it(told: Told) -> None:
    """After the node is opened, the pod is bound to it at its second attempt."""
    step = told.step("report-0", "bound")
    assert step.verdict is not None
    assert (step.node, step.verdict.attempts) == ("c3", 2)


def test_a_gang_starts_as_a_whole(told: Told) -> None:
    """While six of eight fit, no worker has a node, and why is told; then all have one."""
    workers = [f"epoch-{i}" for i in range(8)]
    [waits] = [step for step in told.recording.steps if step.title == "epoch waits as a whole"]
    assert waits.puts == dict.fromkeys(workers, "")
    assert waits.lines[0] == "epoch does not start: 6 of 8 pods fit, none is bound."
    assert waits.lines[2] == ("In kube-scheduler's words: minCount (8) cannot be satisfied: 6 scheduled, 1 remaining.")
    at = told.recording.steps.index(waits)
    before = {pod for step in told.recording.steps[:at] for pod, node in step.puts.items() if node}
    assert not before & set(workers)
    opened = told.recording.steps[at + 1]
    assert f"  uncordon {opened.node}" in waits.lines
    assert opened.cordons == {opened.node: False}
    bound = told.recording.steps[at + 2 :]
    assert [(step.kind, step.pod) for step in bound] == [("bound", name) for name in workers]


def test_told_scores_add_up(told: Told) -> None:
    """Totals are the sums of the plugins' weighted scores, and the chosen node has the best."""
    verdicts = [step.verdict for step in told.recording.steps if step.verdict is not None and step.kind == "bound"]
    assert len(verdicts) == 28
    for verdict in verdicts:
        assert verdict.node == verdict.candidates[0].node
        assert verdict.regret == 0
        for candidate in verdict.candidates:
            assert candidate.total == sum(score.weighted for score in candidate.scores.values())
        assert len(verdict.candidates) + len(verdict.answer.rejected) == verdict.answer.nodes.total


@pytest.mark.parametrize("what", ["points of regret", "nodes overbooked"])
def test_nothing_is_regretted_or_overbooked(told: Told, what: str) -> None:
    """The numbers at the end that have to be zero are."""
    assert [number for number, counted, _ in told.recording.summary if counted == what] == ["0"]


def test_plain_lines_keep_to_their_width(told: Told) -> None:
    """The story fits its columns, and has every pod in it."""
    assert max(map(len, told.lines)) <= 100
    for pod in told.recording.pods.values():
        assert not pod.mine or any(f"✓ {pod.name} → " in line for line in told.lines)
