"""Whatever happens to a cluster, in whatever order, every column and count is what the objects say."""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from podberth.cache import affinity_counts, column, existing_terms, label_index, nodes, row_counts, selected_pods
from podberth.cache.cluster import Cluster
from podberth.cache.rebuild import rebuilt
from podberth.cache.validate import validate
from podberth.model import shape as shapes
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector
from podberth.model.terms import AffinityTerm, WeightedTerm, WeightedTerms
from tests.builders import label, namespace, node, pod, term

NODES = st.sampled_from([f"n{i}" for i in range(5)])
UIDS = st.sampled_from([f"u{i}" for i in range(8)])
NAMESPACES = st.sampled_from(["default", "team", "unknown"])
KEYS = st.sampled_from(["zone", "host", "disk"])
SELECTORS = st.sampled_from([None, "", "app=a", "app notin a", "tier", "!tier"])
TERMS = st.builds(
    term,
    SELECTORS,
    KEYS,
    namespaces=st.sampled_from([(), (), ("team",), ("default", "team")]),
    namespaces_with=st.sampled_from([None, None, "", "owner=x", "!owner"]),
)
SOME_TERMS = st.lists(TERMS, max_size=2)
WEIGHTED = st.lists(st.tuples(st.sampled_from([1, 5]), TERMS), max_size=2)
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2)
PODS = st.fixed_dictionaries(
    {
        "namespace": NAMESPACES,
        "labels": LABELS,
        "cpu": st.sampled_from([None, "0", "100m", "1"]),
        "memory": st.sampled_from([None, "1Gi"]),
        "others": st.sampled_from([{}, {}, {"example.com/gpu": "1"}]),
        "ports": st.sampled_from([(), (), ("80",), ("80", "443/UDP"), ("10.0.0.1:80",), ("80", "80")]),
        "near": SOME_TERMS,
        "apart": SOME_TERMS,
        "rather_near": WEIGHTED,
        "rather_apart": WEIGHTED,
    }
)
NODE_PARTS = st.fixed_dictionaries(
    {
        "zone": st.sampled_from([None, "a", "b", "c"]),
        "labels": st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd", "other": "x"}]),
        "taints": st.sampled_from([(), ("gpu:NoSchedule",), ("gpu=a:NoExecute", "spot:PreferNoSchedule")]),
        "cordoned": st.booleans(),
        "cpu": st.sampled_from(["1", "4"]),
        "pods": st.sampled_from(["10", "110"]),
        "others": st.sampled_from([{}, {"example.com/gpu": "2"}, {"example.com/fpga": "2"}]),
        "images": st.sampled_from([None, {"a:1": 5}, {"a:1": 5, "b:1": 6}, {"b:1": 7}]),
    }
)
decoder = Decoder()


def decode(document: dict[str, Any]) -> Any:
    return decoder.of_kind(document["kind"])(wire.encode(document))


def parsed(found: list[dict[str, Any]]) -> tuple[AffinityTerm, ...]:
    """Terms as a pod of `default` would carry them."""
    made: Pod = decode(pod("asks", near=found))
    return made.shape.affinity_terms


class Events(RuleBasedStateMachine):
    """Feeds a cluster, and remembers where each pod has to be."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.at: dict[str, tuple[str, bool]] = {}
        self.docs: dict[str, dict[str, Any]] = {}

    def teardown(self) -> None:
        self.check()

    def check(self) -> None:
        assert validate(self.cluster) == []
        assert validate(rebuilt(self.cluster)) == []
        names = self.cluster.nodes.names
        found = {p.pod.uid: (names[p.row], p.assumed) for p in self.cluster.placements()}
        assert found == self.at

    @initialize(parts=st.lists(NODE_PARTS, max_size=5))
    def start(self, parts: list[dict[str, Any]]) -> None:
        for i, part in enumerate(parts):
            self.cluster.put_node(decode(node(f"n{i}", **part)))

    @rule(name=NODES, parts=NODE_PARTS)
    def node_put(self, name: str, parts: dict[str, Any]) -> None:
        self.cluster.put_node(decode(node(name, **parts)))

    @rule(name=NODES)
    def node_gone(self, name: str) -> None:
        self.cluster.drop_node(name)

    @rule(first=st.integers(0, 3))
    def many_nodes(self, first: int) -> None:
        """Past the first capacity of the arrays, and then some."""
        for i in range(first * 70, first * 70 + 70):
            self.cluster.put_node(decode(node(f"many{i}", zone=f"z{i % 7}")))

    @rule(first=st.integers(0, 3))
    def many_nodes_gone(self, first: int) -> None:
        for i in range(first * 70, first * 70 + 70):
            self.cluster.drop_node(f"many{i}")

    @rule(uid=UIDS, name=NODES, parts=PODS)
    def pod_put(self, uid: str, name: str, parts: dict[str, Any]) -> None:
        """New, updated in anything, moved, or confirmed otherwise than we assumed; perhaps on an unknown node."""
        document = pod(uid, uid=uid, on=name, **parts)
        self.cluster.put_pod(decode(document))
        self.docs[uid], self.at[uid] = document, (name, False)

    @rule(uid=UIDS, terminating=st.booleans(), toleration=st.booleans(), fresh=st.booleans())
    def pod_again(self, uid: str, terminating: bool, toleration: bool, fresh: bool) -> None:
        """The same pod seen again: as it was, on its way out, or changed in what is not counted."""
        if uid not in self.at:
            return
        document = dict(self.docs[uid])
        document["spec"] = document["spec"] | {"nodeName": self.at[uid][0]}
        if toleration:
            document["spec"]["tolerations"] = [{"operator": "Exists"}]
        if terminating:
            document["metadata"] = document["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        again: Any = decode(document) if not fresh else Decoder().of_kind("Pod")(wire.encode(document))
        self.cluster.put_pod(again)
        self.at[uid] = (self.at[uid][0], False)

    @rule(uid=UIDS)
    def pod_gone(self, uid: str) -> None:
        dropped = self.cluster.drop_pod(uid)
        assert (dropped is not None) == (uid in self.at)
        self.at.pop(uid, None)

    @rule(uid=UIDS, name=NODES, parts=PODS)
    def assume(self, uid: str, name: str, parts: dict[str, Any]) -> None:
        row = self.cluster.nodes.live_row(name)
        if row is None or uid in self.at:
            return
        self.docs[uid] = pod(uid, uid=uid, **parts)
        self.cluster.assume(decode(self.docs[uid]), row)
        self.at[uid] = (name, True)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        assumed = self.at.get(uid, ("", False))[1]
        assert (self.cluster.forget(uid) is not None) == assumed
        if assumed:
            del self.at[uid]

    @rule(uid=UIDS, parts=PODS)
    def replace(self, uid: str, parts: dict[str, Any]) -> None:
        """A changed copy of a placed pod, where it is."""
        changed = decode(pod(uid, uid=uid, **parts))
        assert (self.cluster.replace(changed) is not None) == (uid in self.at)
        if uid in self.at:
            self.docs[uid] = pod(uid, uid=uid, **parts)
            for placement in self.cluster.placements():
                if placement.pod.uid == uid and not placement.assumed:
                    placement.pod.node_name = self.at[uid][0]

    @rule(names=st.lists(NODES, max_size=2), uid=UIDS, parts=PODS, terms=st.lists(TERMS, min_size=1, max_size=1))
    def suppose(self, names: list[str], uid: str, parts: dict[str, Any], terms: list[dict[str, Any]]) -> None:
        """A dry run with one more pod here and there, and without one that is placed, leaves no trace."""
        nodes = self.cluster.nodes
        rows = [row for row in map(nodes.live_row, names) if row is not None]
        extra = [(decode(pod(f"extra{i}", uid=f"extra{i}", **parts)), row) for i, row in enumerate(rows)]
        placement = self.cluster.placement(uid)
        with self.cluster.supposing(extra):
            if placement is not None:
                self.cluster.leave_out(placement)
            self.cluster.affinity.selected(parsed(terms), label("zone")).by_row(nodes.rows)
            for supposed, _ in extra:
                self.cluster.affinity.existing_terms(supposed)
            if placement is not None:
                self.cluster.put_back(placement)

    @rule(name=NAMESPACES.filter(lambda name: name != "unknown"), owner=st.sampled_from(["", "x", "y"]))
    def namespace_put(self, name: str, owner: str) -> None:
        self.cluster.put_namespace(decode(namespace(name, **({"owner": owner} if owner else {}))))

    @rule(name=NAMESPACES)
    def namespace_gone(self, name: str) -> None:
        self.cluster.drop_namespace(name)

    @rule(terms=st.lists(TERMS, min_size=1, max_size=2), key=KEYS)
    def ask_selected(self, terms: list[dict[str, Any]], key: str) -> None:
        self.cluster.affinity.selected(parsed(terms), label(key)).by_row(self.cluster.nodes.rows)

    @rule(parts=PODS)
    def ask_carried(self, parts: dict[str, Any]) -> None:
        """Repelling and preferring terms, the dead ones left out, are those that placed pods carry."""
        waiting: Pod = decode(pod("waiting", **parts))
        labels = self.cluster.namespace_labels(waiting.namespace)
        known = self.cluster.affinity.terms.sets
        existing = self.cluster.affinity.existing_terms(waiting)
        by = [] if existing is None else existing_terms.numbers(existing.by).tolist()
        found = {
            (c.term, c.weight)
            for c in known.terms()
            if c.number in by and any(one.pods and c in one.carried for one in known.all())
        }
        wanted = set()
        for placement in self.cluster.placements():
            shape = placement.pod.shape
            carried = [(t, existing_terms.REPELS_WEIGHT) for t in shape.anti_affinity_terms]
            carried += [(t, existing_terms.HARD_WEIGHT) for t in shape.affinity_terms]
            carried += [(p.term, p.weight) for p in shape.preferred_pod_terms]
            wanted |= {(t, w) for t, w in carried if t.selects(waiting.namespace, labels, waiting.labels)}
        assert found == wanted

    @rule(name=NODES)
    def ask_about_a_placed_pod(self, name: str) -> None:
        """What is kept for the labels of placed pods is held against the slow way when all is looked at."""
        for placement in list(self.cluster.placements()):
            self.cluster.affinity.existing_terms(placement.pod)

    @rule(
        terms=st.lists(TERMS, min_size=1, max_size=3),
        weights=st.lists(st.sampled_from([1, 5, -5]), min_size=3),
        key=KEYS,
    )
    def ask_sums(self, terms: list[dict[str, Any]], weights: list[int], key: str) -> None:
        made = parsed(terms)
        self.cluster.affinity.any_selected(made, label(key))
        pairs = [WeightedTerm(term, abs(weight)) for term, weight in zip(made, weights, strict=False)]
        self.cluster.affinity.preferred(WeightedTerms(pairs), label(key))

    @rule(name=NAMESPACES, select=st.sampled_from(["app=a", "tier"]), leaving=st.booleans())
    def ask_on_rows(self, name: str, select: str, leaving: bool) -> None:
        terms = parsed([term(select)])
        self.cluster.affinity.on_rows(name, LabelSelector(terms[0].selector.requirements), leaving=leaving)

    @rule(key=KEYS, wanted=st.sampled_from(["a", "b", "ssd", "n1", "many3"]))
    def ask_label(self, key: str, wanted: str) -> None:
        """An answer remembered per code is that of the value which has the code now."""
        nodes = self.cluster.nodes
        found = nodes.label(label(key)).where(nodes.rows, wanted, lambda value: value != wanted)
        slow = [(object_.labels.get(label(key)) if object_ else None) != wanted for object_ in nodes.objects]
        assert found.tolist() == slow

    @rule(effect=st.sampled_from(["NoSchedule", "NoExecute"]))
    def ask_taints(self, effect: str) -> None:
        nodes = self.cluster.nodes
        found = nodes.taints.map(nodes.rows, effect, lambda taints: sum(t.effect == effect for t in taints or ()))
        slow = [sum(t.effect == effect for t in object_.taints) if object_ else 0 for object_ in nodes.objects]
        assert found.tolist() == slow

    @rule()
    def ask_images_and_ports(self) -> None:
        nodes = self.cluster.nodes
        for name in ("a:1", "b:1"):
            nodes.image(name)
        for port in (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80)):
            taken = np.zeros(nodes.rows, dtype=np.bool_)
            for placement in self.cluster.placements():
                for ip, protocol, number in placement.pod.shape.host_ports:
                    if (protocol, number) == port[1:] and (ip == port[0] or "0.0.0.0" in (ip, port[0])):
                        taken[placement.row] = True
            assert nodes.port_conflicts((port,)).tolist() == taken.tolist()

    @rule()
    def adopt(self) -> None:
        """What was made anew goes on as the original would."""
        self.cluster.adopt(rebuilt(self.cluster))

    @rule()
    def look(self) -> None:
        self.check()


@pytest.mark.parametrize(("few", "most"), [(0, 1 << 62), (2, 3 << 30), (64, 1 << 62)])
def test_columns_hold_after_any_sequence_of_events(monkeypatch: Any, few: int, most: int) -> None:
    """Bounds are small, so that eviction, dropping and reuse happen all the time, and sums that columns can't hold."""
    for module, name, value in (
        (affinity_counts, "_SUMS", 3),
        (affinity_counts, "_ON_ROWS", 1),
        (selected_pods, "IDLE", 2),
        (selected_pods, "DEAD", 2),
        (existing_terms, "IDLE", 2),
        (existing_terms, "DEAD", 2),
        (existing_terms, "_BORN", 1),
        (row_counts, "REMEMBERED", 8),
        (row_counts, "_CATCH_UP", 3),
        (label_index, "FEW", few),
        (label_index, "_VALUES_KEPT", 1),
        (selected_pods, "_ONE_BY_ONE", 2),
        (row_counts, "_MANY", 2),
        (nodes, "_MOST", most),
        (shapes, "LARGE", most >> 20),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(column, "MEMOS", 6)
    monkeypatch.setattr(nodes, "COLUMNS", 3)
    monkeypatch.setattr(__name__ + ".decoder", Decoder())  # the shapes are to be read anew
    run_state_machine_as_test(
        Events,
        settings=settings(
            max_examples=int(os.environ.get("BERTH_EXAMPLES", "40")),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
