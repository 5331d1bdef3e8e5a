"""What is said and offered for volumes: of each claim what is in its way, and as little as would do."""

import pytest

from tests.builders import Object, node, pod
from tests.storage import capacity, claim, csi_driver, csi_node, storage_class, using, volume
from tests.unit.explain.plugins.offers import golden, shown

FAST, SLOW = storage_class("fast", "csi.test"), storage_class("slow", "csi.test")
LOCAL = storage_class("local")
IN_B = storage_class("far", "csi.test", allowed=["zone in b"])
EBS: Object = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
GCE: Object = {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}


def disk(name: str, number: int, size: str, **more: object) -> Object:
    return volume(f"{name}{number}", size, storage_class="local", on=["zone in b"], **more)  # type: ignore[arg-type]


def bound(name: str, to: str, **more: object) -> list[Object]:
    """A claim, and its volume."""
    where: Object = {"labels": {"zone": "b"}} | more
    return [
        claim(name, storage_class="fast", to=to),
        volume(to, storage_class="fast", claimed=name, **where),
    ]


def attached(name: str, *pods: Object, **more: object) -> list[Object]:
    """A volume of pods on n."""
    return [*bound(name, f"v-{name}", labels=None, **more), *(using(each, name) for each in pods)]


N, P = node("n", zone="a"), using(pod("p"), "data")
CASES: dict[str, tuple[Object, list[Object]]] = {
    "a size that is there to the byte": (
        P,
        [
            N,
            FAST,
            csi_driver(capacity=True),
            capacity("c", "9Gi", storage_class="fast"),
            claim("data", "9Gi", storage_class="fast"),
        ],
    ),
    "less than asked for, in whole megabytes": (
        P,
        [
            N,
            FAST,
            csi_driver(capacity=True),
            capacity("c", "4097Ki", storage_class="fast"),
            claim("data", "5Mi", storage_class="fast"),
        ],
    ),
    "a tenth of what is asked for": (
        P,
        [
            N,
            FAST,
            csi_driver(capacity=True),
            capacity("c", "1Gi", storage_class="fast"),
            claim("data", "10Gi", storage_class="fast"),
        ],
    ),
    "less than a tenth": (
        P,
        [
            N,
            FAST,
            csi_driver(capacity=True),
            capacity("c", "1Gi", storage_class="fast"),
            claim("data", "11Gi", storage_class="fast"),
        ],
    ),
    "no room at all": (
        P,
        [N, FAST, csi_driver(capacity=True), claim("data", "9Gi", storage_class="fast")],
    ),
    "the most room of several, of two claims": (
        using(pod("p"), "data", "more"),
        [
            N,
            FAST,
            SLOW,
            csi_driver(capacity=True),
            *(capacity(f"c{i}", f"{i}Gi", storage_class="fast") for i in (2, 4, 3)),
            capacity("s", "1Gi", storage_class="slow"),
            claim("data", "6Gi", storage_class="fast"),
            claim("more", "9Gi", storage_class="slow"),
        ],
    ),
    "enough room for one claim, too little for another, and none told of a third": (
        using(pod("p"), "data", "more", "untold"),
        [
            N,
            FAST,
            SLOW,
            storage_class("other", "csi.other"),
            csi_driver(capacity=True),
            csi_driver("csi.other"),
            capacity("c", "9Gi", storage_class="fast"),
            capacity("s", "1Gi", storage_class="slow"),
            claim("data", "6Gi", storage_class="fast"),
            claim("more", "9Gi", storage_class="slow"),
            claim("untold", "9Gi", storage_class="other"),
        ],
    ),
    "a driver of which nothing is known, beside one that is full": (
        using(pod("p"), "data", "more"),
        [
            N,
            SLOW,
            storage_class("other", "csi.other"),
            csi_driver(capacity=True),
            claim("data", "9Gi", storage_class="other"),
            claim("more", "9Gi", storage_class="slow"),
        ],
    ),
    "an ephemeral volume whose claim another pod has": (
        using(pod("p", uid="p"), "+data"),
        [N, FAST, claim("p-data", storage_class="fast", owner="q")],
    ),
    "an ephemeral volume whose claim lost its volume": (
        using(pod("p", uid="p"), "+data"),
        [N, FAST, claim("p-data", storage_class="fast", owner="p", to="v")],
    ),
    "an ephemeral volume whose claim is not made yet": (using(pod("p", uid="p"), "+data"), [N, FAST]),
    "a class that does not exist, and three that would do, beside two that would not": (
        using(pod("p"), "data"),
        [
            N,
            *(storage_class(name, "csi.test") for name in ("fourth", "fast", "third")),
            storage_class("at-once", "csi.test", waits=False),
            LOCAL,
            claim("data", storage_class="fats"),
        ],
    ),
    "a claim that is not there": (using(pod("p"), "data"), [N, FAST, SLOW, storage_class("third", "csi.test")]),
    "a claim that is being deleted": (
        using(pod("p"), "data"),
        [
            N,
            FAST,
            claim("data", storage_class="fast", to="v", leaving=True),
            volume("v", storage_class="fast", claimed="data"),
            *(using(pod(f"q{i}", on="n"), "data") for i in range(2)),
        ],
    ),
    "a claim that is being deleted and has more users than are offered": (
        using(pod("p"), "data"),
        [
            N,
            FAST,
            claim("data", storage_class="fast", leaving=True),
            *(using(pod(f"q{i}", on="n"), "data") for i in range(4)),
        ],
    ),
    "a claim that nobody holds and that has no volume is being deleted": (
        using(pod("p"), "data"),
        [N, FAST, claim("data", storage_class="fast", leaving=True)],
    ),
    "claims with more faults than are told": (
        using(pod("p"), *(f"c{i}" for i in range(9))),
        [N, FAST],
    ),
    "claims with nearly as many": (using(pod("p"), *(f"c{i}" for i in range(7))), [N, FAST, SLOW]),
    "volumes of the class, each with a fault": (
        using(pod("p"), "data"),
        [
            N,
            LOCAL,
            FAST,
            SLOW,
            claim("data", "5Gi", storage_class="local"),
            disk("small", 0, "4Gi"),
            disk("small", 1, "1Gi"),
            *(disk("taken", i, "9Gi", claimed="other") for i in range(3)),
            *(disk("fits", i, "5Gi") for i in range(4)),
            *(disk("leaving", i, "9Gi", leaving=True) for i in range(5)),
            disk("failed", 0, "9Gi", phase="Failed"),
            *(disk("modes", i, "9Gi", modes="ROX") for i in range(7)),
            disk("mine", 0, "9Gi", claimed="data", uid="claim/default/data"),
        ],
    ),
    "released volumes, two of which would serve": (
        using(pod("p"), "data"),
        [
            N,
            LOCAL,
            claim("data", "5Gi", storage_class="local"),
            *(
                volume(f"old{i}", "9Gi", storage_class="local", claimed="gone", uid="u", phase="Released")
                for i in range(3)
            ),
            volume("small", "1Gi", storage_class="local", claimed="gone", uid="u", phase="Released"),
            disk("far", 0, "9Gi", claimed="gone", uid="u", phase="Released"),
            volume("ends", "9Gi", storage_class="local", claimed="gone", uid="u", phase="Released", leaving=True),
        ],
    ),
    "released volumes, of which one is too small and one elsewhere": (
        using(pod("p"), "data"),
        [
            N,
            LOCAL,
            claim("data", "5Gi", storage_class="local"),
            *(
                volume(name, size, storage_class="local", claimed="gone", uid="u", phase="Released", on=where)
                for name, size, where in (("a", "1Gi", ()), ("b", "9Gi", ["zone in b"]), ("c", "5Gi", ["zone in a"]))
            ),
        ],
    ),
    "a class that makes volumes elsewhere": (P, [N, IN_B, FAST, SLOW, claim("data", storage_class="far")]),
    "a node that was chosen": (
        using(pod("p"), "data", "more"),
        [
            N,
            node("m", zone="a"),
            FAST,
            claim("data", storage_class="fast", selected="m"),
            claim("more", storage_class="fast", selected="n"),
        ],
    ),
    "volumes that are elsewhere": (
        using(pod("p"), "data", "more"),
        [N, FAST, *bound("data", "v"), *bound("more", "w")],
    ),
    "one that is elsewhere, without a class that makes another": (P, [N, *bound("data", "v")]),
    "a volume that the node does not reach": (
        using(pod("p"), "data", "near"),
        [
            N,
            FAST,
            *bound("data", "v", labels=None, on=["zone in b"]),
            *bound("near", "w", labels=None, on=["zone in a"]),
        ],
    ),
    "a volume that does not name its claim yet": (
        P,
        [N, FAST, claim("data", storage_class="fast", to="v"), volume("v", storage_class="fast", labels={"zone": "b"})],
    ),
    "a zone by its old label, which the node has too, beside today's": (
        P,
        [node("n", zone="a", labels={OLD_ZONE: "b"}), FAST, *bound("data", "v", labels={OLD_ZONE: "a"})],
    ),
    "a volume whose CSI driver has taken over, and does not know the node's zone": (
        P,
        [
            N,
            FAST,
            csi_node("n", migrated=["kubernetes.io/aws-ebs"]),
            *bound("data", "v", labels=None, driver=None, on=["zone in a"], **EBS),
        ],
    ),
    "a disk that nobody shares": (
        using(pod("p"), EBS),
        [N, using(pod("q", on="n"), EBS), using(pod("r", on="n"), {"awsElasticBlockStore": {"volumeID": "vol-2"}})],
    ),
    "a disk that is read by others": (
        using(pod("p"), {"gcePersistentDisk": {"pdName": "d"}}),
        [N, using(pod("q", on="n"), GCE)],
    ),
    "a disk of more pods than are offered": (
        using(pod("p"), EBS),
        [N, *(using(pod(f"q{i}", on="n"), EBS) for i in range(6))],
    ),
    "more volumes than there is room for": (
        using(pod("p"), "a", "b", "c"),
        [
            N,
            FAST,
            csi_node("n", csi_test=2, csi_more=1),
            *(each for name in "abc" for each in attached(name)),
            *attached("x", pod("one", on="n")),
            *attached("y", pod("two", on="n"), pod("three", on="n")),
        ],
    ),
    "too many volumes of two drivers, and of one many too many": (
        using(pod("p"), "a", "b", "c"),
        [
            N,
            FAST,
            csi_node("n", csi_test=2, csi_more=1),
            *(each for name in "ab" for each in attached(name, driver="csi.more")),
            *attached("c"),
            *(each for name in "xy" for each in attached(name, pod(f"q{name}", on="n"))),
            *attached("z", pod("qz", on="n"), driver="csi.more"),
        ],
    ),
    "pods with volumes enough": (
        using(pod("p"), "a"),
        [
            N,
            FAST,
            csi_node("n", csi_test=2),
            *attached("a"),
            *attached("x", pod("one", on="n")),
            *attached("y", pod("two", on="n", priority=1), pod("three", on="n")),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_and_offered(name: str) -> None:
    assert shown(CASES[name]) == golden("volumes")[name]


def test_every_case_is_there() -> None:
    assert list(golden("volumes")) == list(CASES)
