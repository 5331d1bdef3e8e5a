"""Affinity by annotation: what it does to spec.affinity, what is refused and how, and that it is off unless named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.engine.event_handlers import waiting_pod_changes
from podberth.explain.objects.world import World
from podberth.framework.config import ConfigError, decode
from podberth.framework.decision import fit_error
from podberth.framework.events import ANY, ClusterEvent
from podberth.framework.profiles import annotated, build
from podberth.framework.runtime import Framework
from podberth.model.annotated import AnnotationsRead
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import (
    PREFERRED,
    REQUIRED,
    Object,
    configuration,
    node,
    node_selector,
    node_term,
    pod,
    profile,
    term,
)

KEY = "scheduler.alpha.kubernetes.io/affinity"
MODE = "podberth.dev/affinity-mode"
ALSO = "requiredDuringSchedulingRequiredDuringExecution"
WORDS = (
    *("nodeAffinity", "podAffinity", "podAntiAffinity", REQUIRED, PREFERRED, ALSO, "nodeSelectorTerms"),
    *("matchExpressions", "matchFields", "key", "operator", "values", "weight", "preference", "podAffinityTerm"),
    *("labelSelector", "matchLabels", "namespaces", "namespaceSelector", "topologyKey"),
)
NODES = [
    node("a", labels={"disk": "ssd", "site": "x"}),
    node("b", labels={"disk": "hdd", "site": "x"}),
    node("c", labels={"disk": "ssd", "site": "y"}),
]


def frameworks(**args: Any) -> dict[str, Framework]:
    """A profile that reads the annotation, and one that does not."""
    enabled = {"multiPoint": {"enabled": [{"name": "AnnotationAffinity"}]}}
    reading = profile("berth", enabled, **({"AnnotationAffinity": args} if args else {}))
    return build(decode(configuration(reading, profile("other"))), IN_TREE)


def noted(made: Object, affinity: Any, mode: str | None = None) -> Object:
    """The pod with the annotation: an object as JSON, or text as it is."""
    text = affinity if isinstance(affinity, str) else json.dumps(affinity)
    made["metadata"]["annotations"] = {KEY: text} | ({MODE: mode} if mode else {})
    return made


def need(*terms: str, field: str = REQUIRED) -> Object:
    return {"nodeAffinity": {field: node_selector(*terms)}}


def prefer(text: str) -> Object:
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": node_term(text)}]}}


def flat(text: str) -> Object:
    """A preferred term as the design of 2015 has it."""
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, **node_term(text)}]}}


def decided(asks: Object, *objects: Object, **args: Any) -> str:
    """The best nodes, or the message."""
    found = frameworks(**args)
    world = World(Decoder(annotated(found)))
    world.add_all([*NODES, *objects])
    asking = world.decode(asks)
    assert isinstance(asking, Pod)
    decision = found[asking.scheduler_name].decide(asking, world.cluster, score_always=True)
    names = [str(world.cluster.nodes.names[row]) for row in decision.best()]
    return " ".join(sorted(names)) or fit_error(decision)


NONE_OF_3 = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
WON: list[tuple[str, Object, str]] = [
    ("no spec.affinity", noted(pod("p"), need("disk=ssd")), "a c"),
    ("replaces the field that it names", noted(pod("p", need=["disk=ssd"]), need("disk=hdd")), "b"),
    ("replaces the whole field", noted(pod("p", need=["disk=hdd"]), prefer("site=y")), "c"),
    ("leaves the fields that it does not name", noted(pod("p", need=["disk=hdd"]), {"podAffinity": {}}), "b"),
    ("null names nothing", noted(pod("p", need=["disk=hdd"]), {"nodeAffinity": None}), "b"),
    ("said in so many words", noted(pod("p", need=["disk=ssd"]), need("disk=hdd"), "replace"), "b"),
    ("add: both must hold", noted(pod("p", need=["disk=ssd"]), need("site=x"), "add"), "a"),
    ("add: nothing is left", noted(pod("p", need=["disk=ssd"]), need("disk=hdd"), "add"), NONE_OF_3),
    ("add: each term with each", noted(pod("p", need=["disk=hdd", "site=y"]), need("disk=ssd", "site=z"), "add"), "c"),
    ("add: an empty term matches nothing", noted(pod("p", need=[""]), need("disk=ssd"), "add"), NONE_OF_3),
    ("add: to nothing", noted(pod("p"), need("disk=hdd"), "add"), "b"),
    ("add: preferences", noted(pod("p", prefer=[(1, "disk=ssd")]), prefer("site=y"), "add"), "c"),
    ("nodeSelector holds beside it", noted(pod("p", select={"site": "y"}), need("disk=ssd")), "c"),
    ("the seed's stronger requirement", noted(pod("p"), need("disk=hdd", field=ALSO)), "b"),
    ("the seed's flat preference", noted(pod("p"), flat("site=y")), "c"),
    ("flat and nested preferences",
     noted(pod("p"), {"nodeAffinity": {PREFERRED: [
         {"weight": 1, **node_term("disk=hdd")}, {"weight": 2, "preference": node_term("site=y")}]}}), "c"),
    ("add: flat preferences", noted(pod("p", prefer=[(1, "disk=ssd")]), flat("site=y"), "add"), "c"),
    ("both requirements",
     noted(pod("p"), {"nodeAffinity": need("disk=ssd")["nodeAffinity"] | need("site=y", field=ALSO)["nodeAffinity"]}),
     "c"),
]  # fmt: skip


@pytest.mark.parametrize(("asks", "want"), [row[1:] for row in WON], ids=[row[0] for row in WON])
def test_where_it_goes(asks: Object, want: str) -> None:
    """Replace and add, field by field."""
    assert decided(asks) == want


def test_add_for_the_whole_profile() -> None:
    """The plugin's argument is for pods that do not say."""
    assert decided(noted(pod("p", need=["disk=ssd"]), need("site=x")), mode="add") == "a"
    assert decided(noted(pod("p", need=["disk=ssd"]), need("site=x"), "replace"), mode="add") == "a b"


def test_off_unless_the_profile_names_it() -> None:
    """Pods of another profile, or of another scheduler, keep what spec.affinity says."""
    assert decided(noted(pod("p", need=["disk=ssd"], scheduler="other"), "no JSON")) == "a c"
    assert annotated(build(decode(configuration()), IN_TREE)) == AnnotationsRead()


def test_placed_pods_keep_others_away_by_it() -> None:
    """The terms of a pod that runs are those that it was scheduled with."""
    apart = {"podAntiAffinity": {REQUIRED: [term("app=web")]}}
    there = noted(pod("x", on="a", labels={"app": "web"}), apart)
    assert decided(pod("p", labels={"app": "web"}), there) == "b c"


REFUSED: list[tuple[Any, str | None, str]] = [
    ("{", None, f"annotation {KEY}: not JSON: Input data was truncated"),
    ("", None, f"annotation {KEY}: not JSON: Input data was truncated"),
    ("[]", None, f'annotation {KEY}: "[]": expected the JSON of an Affinity, an object'),
    ("[" * 200_000, None, f"annotation {KEY}: it is nested too deeply"),
    ({"nodeAfinity": {}}, None, f"annotation {KEY}: nodeAfinity: unknown field (did you mean nodeAffinity?)"),
    ({"zone": {}}, None, f"annotation {KEY}: zone: unknown field"),
    ({"nodeAffinity": {"required": 1}}, None, f"annotation {KEY}: nodeAffinity.required: unknown field"),
    ({"nodeAffinity": []}, None, f"annotation {KEY}: nodeAffinity: expected a mapping, got a list"),
    (need(), None, f"nodeAffinity.{REQUIRED}.nodeSelectorTerms: must have at least one node selector term"),
    (need("disk in a b"), None, f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[0]"),
    (need("n > x"), None, f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value"),
    ({"nodeAffinity": {PREFERRED: [{"weight": 0}]}}, None, f"nodeAffinity.{PREFERRED}[0].weight: 0: expected 1 to 100"),
    ({"podAffinity": {REQUIRED: [{}]}}, None, f'podAffinity.{REQUIRED}[0].topologyKey: "": expected a label key'),
    (
        {"podAntiAffinity": {PREFERRED: [{"weight": 101}]}},
        None,
        f"podAntiAffinity.{PREFERRED}[0].weight: 101: expected",
    ),
    (need("disk=ssd"), "maybe", f'annotation {MODE}: "maybe": expected replace or add'),
]


@pytest.mark.parametrize(("affinity", "mode", "want"), REFUSED)
def test_what_can_not_be_honoured_keeps_the_pod_pending(affinity: Any, mode: str | None, want: str) -> None:
    """A reason for people, on the pod as a whole; never an exception, and never as if nothing had been asked."""
    said = decided(noted(pod("p"), affinity, mode))
    assert said.startswith("0/3 nodes are available: annotation ")
    assert want in said


def test_too_many_terms_together() -> None:
    """Two long lists do not multiply without bound."""
    many = [f"disk=v{i}" for i in range(40)]
    assert "40 × 40 node selector terms together" in decided(noted(pod("p", need=many), need(*many), "add"))


def test_a_corrected_annotation_wakes_the_pod() -> None:
    """Whatever rejected it, the plugin or NodeAffinity, has to be asked again; a change of nothing wakes nobody."""
    decoder = Decoder(annotated(frameworks()))
    bad, good, same, other = (
        decoder.pod(json.dumps(noted(pod("p"), text)).encode())
        for text in ("{", need("disk=ssd"), {**need("disk=ssd")}, need("disk=hdd"))
    )
    assert waiting_pod_changes(bad, good) == ANY
    assert waiting_pod_changes(good, other) == ANY
    assert waiting_pod_changes(good, same) == ClusterEvent.NOTHING
    assert ClusterEvent.OWN_AFFINITY in ANY


def test_one_shape_for_all_pods_of_a_template() -> None:
    """The annotation is part of what a shape is shared by."""
    decoder = Decoder(annotated(frameworks()))
    one, two, three = (
        decoder.pod(json.dumps(noted(pod(name), need(wanted))).encode())
        for name, wanted in (("p", "disk=ssd"), ("q", "disk=ssd"), ("r", "disk=hdd"))
    )
    assert one.shape is two.shape
    assert one.shape is not three.shape


def test_bad_mode() -> None:
    """Refused with its path."""
    with pytest.raises(ConfigError, match=r'pluginConfig\[0\]\.args\.mode: Unsupported value: "both": supported'):
        frameworks(mode="both")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.sampled_from(["", "a", "disk", "In", "a b", "Gt", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(WORDS)), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(JSON | st.text(max_size=20), st.sampled_from(["replace", "add"]))
def test_whatever_it_holds_there_is_an_answer(affinity: Any, mode: str) -> None:
    """Never an exception: the annotation is honoured, or the pod has a reason that names it."""
    asks = noted(pod("p", need=["disk=ssd"]), affinity, mode)
    found = Decoder(AnnotationsRead({"berth": "replace"})).pod(json.dumps(asks).encode())
    problem = found.shape.annotation_problem
    assert problem is None or problem.startswith(f"annotation {KEY}: ")
