"""A masked dump: nothing of the names is left, and every answer is the same but for the names."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.explain.explain import explain
from podberth.explain.objects.controllers import Workload
from podberth.explain.objects.documents import read
from podberth.explain.objects.dump import Masks, smallest
from podberth.explain.plugins import node_affinity
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.plan import plan
from tests.builders import namespace, node, pod
from tests.storage import claim, csi_node, storage_class, using, volume
from tests.unit.explain.story import DUMP, framework, world
from tests.unit.explain.test_remedies import INCOMING, NODE, POD

Object = dict[str, Any]
COOKBOOK = Path(__file__).parents[4] / "examples" / "cookbook" / "dump.yaml"
STORAGE = [
    namespace("shop"),
    node("acme-a", zone="acme-1"),
    node("acme-b", zone="acme-2", cordoned=True),
    storage_class("acme-fast", "csi.test"),
    csi_node("acme-a", csi_test=1),
    claim("acme-data", storage_class="acme-fast", to="acme-pv"),
    volume("acme-pv", on=["zone in acme-2"], labels={"zone": "acme-2"}, claimed="acme-data", storage_class="acme-fast"),
    using(pod("acme-db"), "acme-data"),
    using(pod("acme-lost"), "acme-none"),
    using(pod("acme-scratch"), "+acme-tmp"),
    pod("acme-img", images=["registry.acme.test/team/app:1.2"], need=["acme.test/gen > 3;disk=acme-ssd"]),
]


@contextmanager
def nothing_is_misspelt() -> Iterator[None]:
    """Corrections are not offered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_affinity, "near_labels", lambda *_: ())
        yield


def objects_of(path: Path) -> list[Object]:
    """The objects of a dump."""
    return [msgspec.json.decode(document.raw) for document in read(path.read_bytes())]


def smaller(objects: list[Object]) -> list[Object]:
    """As `berth dump` writes them."""
    return [made for each in objects if (made := smallest(deepcopy(each))) is not None]


def by_parts(masks: Masks) -> Callable[[str], str]:
    """Masks the two names of namespace/name."""
    return lambda key: "/".join(map(masks.text, key.split("/")))


def answers(objects: list[Object], text: Callable[[str], str]) -> dict[str, Any]:
    """The answers about each waiting pod, and the nodes of a crowd of new ones; names as `text` has them."""
    there = world(objects)
    found: dict[str, Any] = {}
    for key in sorted(there.waiting):
        answer = explain(there.waiting[key], framework(), there.cluster)
        found[text(key)] = (
            answer.outcome,
            [(text(n.node), n.rank, n.total) for n in answer.feasible],
            [(text(n.node), n.plugin, n.code, len(n.findings), len(n.also)) for n in answer.rejected],
            [(each.plugin, each.nodes) for each in answer.summary],
            [(type(r.changes[0]).__name__, [text(n) for n in r.nodes]) for r in answer.remedies],
        )
    made = pod("new", "500m", "256Mi", namespace="default")
    batch = Batch(Workload("", made, "new", 40, kind="Deployment"), there, None, "default", "berth")
    outcome = plan(there, framework(), [batch])
    found["simulated"] = [(each.pod, text(each.node)) for each in outcome.placed if "/new-" in each.pod]
    return found


@pytest.mark.parametrize(
    "objects", [DUMP["items"], STORAGE, objects_of(COOKBOOK)], ids=["story", "storage", "cookbook"]
)
def test_answers_are_the_same_but_for_the_names(objects: list[Object]) -> None:
    """Verdicts, nodes, ranks, changes and placements, each name replaced by its mask."""
    agree(objects)


def agree(objects: list[Object]) -> None:
    """A masked dump gives the answers of the plain one but for corrections, as its masks are all spelt nearly alike."""
    plain = smaller(objects)
    masks = Masks(plain)
    masked = [masks.masked(each) for each in plain]
    with nothing_is_misspelt():
        expected = answers(plain, by_parts(masks))
    assert answers(masked, lambda name: name) == expected


@settings(max_examples=12, deadline=None)
@given(
    st.lists(NODE, min_size=1, max_size=4),
    st.lists(st.tuples(POD, st.integers(0, 3)), max_size=4),
    st.lists(INCOMING, min_size=1, max_size=3),
)
def test_of_any_cluster(nodes: list[Object], placed: list[tuple[Object, int]], waiting: list[Any]) -> None:
    """The same for clusters that nobody wrote by hand."""
    objects = [namespace("default"), *[node(f"acme-{i}", **fields) for i, fields in enumerate(nodes)]]
    objects += [pod(f"q-{i}", on=f"acme-{on % len(nodes)}", **fields) for i, (fields, on) in enumerate(placed)]
    objects += [pod(f"w-{i}", **asked, **more) for i, (asked, more, _) in enumerate(waiting)]
    agree(objects)


def test_nothing_of_the_names_is_left() -> None:
    """No word of a name, a label's value, an image or a message; keys, drivers and numbers stay."""
    told = pod("acme-told", status={"conditions": [{"type": "PodScheduled", "message": "acme says no"}]})
    plain = smaller([*STORAGE, told])
    for each in plain:  # a real one says nothing
        each["metadata"]["uid"] = "6f1c8a0e-77d2-4b1c-9f0e-2a6d5b9f3c11"
    masks = Masks(plain)
    text = json.dumps([masks.masked(each) for each in plain])
    left = set(re.findall(r"[\w./-]*(?:acme|shop|team)[\w./-]*", text))
    assert left == {"acme.test/gen"}
    for kept in ("csi.test", "topology.kubernetes.io/zone", ":1.2", '"3"', "default"):
        assert kept in text


def test_an_annotation_that_can_not_be_read_is_masked_word_by_word() -> None:
    """It stays as unreadable as it was, so that the pod is refused as before."""
    key = "scheduler.alpha.kubernetes.io/affinity"
    broken = pod("acme-told")
    broken["metadata"]["annotations"] = {key: '{"nodeAffinity": "acme-secret"'}
    [plain] = smaller([broken])
    found = Masks([plain]).masked(plain)["metadata"]["annotations"][key]
    assert found.startswith('{"') and "acme" not in found and "secret" not in found


def test_what_belongs_together_stays_together() -> None:
    """An owner and its pods, a claim and the pod it is made for, a node and its hostname."""
    masks = Masks(smaller([*STORAGE, pod("web-6c9-x7k"), node("web")]))
    assert masks.text("web-6c9-x7k").startswith(masks.text("web-6c9"))
    assert masks.text("acme-scratch-acme-tmp") == f"{masks.text('acme-scratch')}-{masks.text('acme-tmp')}"
    assert (masks.text("42"), masks.text("kube-system")) == ("42", "kube-system")
    for made in smaller(STORAGE):
        if made["kind"] == "Node":
            hidden = masks.masked(made)["metadata"]
            assert hidden["labels"]["kubernetes.io/hostname"] == hidden["name"]


def test_no_typo_is_sought_among_masks() -> None:
    """Nodes, labels, classes and claims that are not there: other masks are no correction of theirs."""
    strays = [
        pod("acme-1", need=["zone in acme-3"]),
        pod("acme-2", near=["app=acme-web per host"]),
        pod("acme-web", on="acme-a", labels={"app": "acme-webb"}),
    ]
    plain = smaller([*STORAGE, *strays])
    masks = Masks(plain)
    for objects, meant in ((plain, 2), ([masks.masked(each) for each in plain], 0)):
        there = world(objects)
        told = [explain(there.waiting[key], framework(), there.cluster) for key in sorted(there.waiting)]
        assert sum("did you mean" in note for each in told for note in each.notes) == meant
