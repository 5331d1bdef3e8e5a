"""Nominations that do not count for a while: those of the group that is being tried."""

from podberth.cache.nominations import Nominations
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod, empty_like
from tests import builders
from tests.unit.work import lines

DECODER = Decoder()


def made(name: str) -> Pod:
    return DECODER.pod(wire.encode(builders.pod(name, uid=name)))


def nobody(pod: Pod, node: str) -> None:
    return None


def empty(pod: Pod, node: str) -> Pod:
    return empty_like(pod)


def names(nominations: Nominations, node: str) -> list[str]:
    return sorted(pod.name for pod in nominations.on(node))


def test_they_are_back_afterwards_unless_they_have_ended() -> None:
    nominations = Nominations()
    pods = {name: made(name) for name in ("a", "b", "c", "other")}
    for name in ("a", "b", "other"):
        nominations.put(pods[name], "n1")
    before = nominations.log.version
    nominations.set_aside([pods["a"], pods["b"], pods["c"]], nobody)
    assert names(nominations, "n1") == ["other"]
    assert nominations.node_of.get("a") == "n1", "where it is to go is known all the same"
    assert nominations.log.since(before) == {"n1"}
    assert nominations.drop("a") == "n1"
    nominations.put(pods["c"], "n2")
    assert names(nominations, "n2") == []
    nominations.bring_back()
    assert names(nominations, "n1") == ["b", "other"]
    assert names(nominations, "n2") == ["c"]
    assert nominations.node_of.get("a") is None


def test_others_may_stand_in_for_them_meanwhile() -> None:
    nominations, a, b = Nominations(), made("a"), made("b")
    nominations.put(a, "n1")
    nominations.put(b, "n1")
    nominations.set_aside([a, b], empty)
    there = nominations.on("n1")
    assert [(pod.name, pod.labels, pod.shape.requests) for pod in there] == [("a", {}, {}), ("b", {}, {})]
    assert nominations.drop("a") == "n1"
    assert names(nominations, "n1") == ["b"]
    nominations.put(a, "n2")
    assert [pod.labels for pod in nominations.on("n2")] == [{}]
    nominations.bring_back()
    assert nominations.on("n1") == [b]
    assert nominations.on("n2") == [a]


def test_nominations_of_others_cost_nothing() -> None:
    """A tenant may have thousands, and the nominations of a group are set aside in each of its slices."""

    def aside(others: int) -> int:
        nominations, pod = Nominations(), made("a")
        nominations.put(pod, "n0")
        for i in range(others):
            nominations.put(made(f"other-{i}"), f"n{i}")

        def work() -> None:
            nominations.set_aside([pod], nobody)
            nominations.bring_back()

        return lines(work)[0]

    assert aside(1_000) == aside(10)
