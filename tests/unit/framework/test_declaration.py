"""What a plugin declares: each slip is a line at start that names the attribute, and ours make none."""

from typing import Any

import pytest

from podberth.framework.declaration import declaration_of, problems_of
from podberth.framework.events import ClusterEvent
from podberth.framework.explaining import Explainer
from podberth.framework.interface import ANYTHING, MAXIMUM, NODE, PODS_ELSEWHERE, PODS_HERE, VOLUMES, Plugin
from podberth.plugins.registry import IN_TREE


def own(**members: Any) -> Any:
    return type("Own", (Plugin,), {"name": "Own", **members})


def filter_(self: Any, pod: Any, cluster: Any) -> Any:
    return ()


def score(self: Any, pod: Any, cluster: Any, feasible: Any) -> Any:
    return 0


async def coroutine(self: Any, assumed: Any) -> None:
    return None


def explaining(**members: Any) -> Any:
    return type("Explaining", (Explainer,), members)


FILTER: dict[str, Any] = {"filter": filter_, "depends_on": NODE}
SCORE: dict[str, Any] = {"score": score, "depends_on": NODE}


@pytest.mark.parametrize(
    ("id", "members", "says"),
    [
        ("another name", {**FILTER, "name": "Owen"}, 'its attribute name is "Owen", should be "Own"'),
        ("no point", {}, "it has none of the extension points pre_enqueue, queue_sort, pre_filter, filter"),
        ("pre_score", {**SCORE, "pre_score": score}, "pre_score is no point of its own here"),
        (
            "no depends_on",
            {"filter": filter_},
            "it has filter, and depends_on does not say what the answers depend on: NODE",
        ),
        (
            "depends on a text",
            {**FILTER, "depends_on": "node"},
            'its depends_on is "node", should be of NODE, PODS_HERE',
        ),
        (
            "depends for nothing",
            {"permit": filter_, "depends_on": NODE},
            "it has depends_on, and neither filter nor score",
        ),
        (
            "nearly a name",
            {**FILTER, "unreserv": filter_},
            "it has unreserv, which means nothing: did you mean unreserve?",
        ),
        (
            "too few arguments",
            {**FILTER, "filter": lambda self, pod: ()},
            "its filter takes (pod), should take (pod, cluster)",
        ),
        (
            "too many arguments",
            {"permit": lambda self, assumed, cluster, row: None},
            "its permit takes (assumed, cluster, row), should take (assumed, cluster)",
        ),
        ("no self", {**FILTER, "filter": lambda: ()}, "its filter takes (), should take (pod, cluster)"),
        ("no method", {**FILTER, "filter": ()}, "its filter is (), should be a method"),
        ("constructor", {**FILTER, "__init__": lambda self: None}, "its __init__ takes (), should take (args)"),
        ("coroutine", {**FILTER, "filter": coroutine}, "filter can't be a coroutine function, only permit, pre_bind"),
        ("coroutines that may be", {"post_bind": coroutine, "permit": coroutine}, ""),
        (
            "normalize",
            {**SCORE, "normalize": "max"},
            'its normalize is "max", should be MAXIMUM, MAXIMUM_REVERSED, MIN_MAX',
        ),
        ("normalize alone", {**FILTER, "normalize": MAXIMUM}, "it has normalize, and no score"),
        ("events", {**FILTER, "events": "all"}, 'its events is "all", should be a ClusterEvent'),
        (
            "time_limit",
            {**FILTER, "time_limit": 0},
            "its time_limit is 0, should be seconds, more than 0 and at most 900",
        ),
        ("Args", {**FILTER, "Args": dict}, "its Args is the class dict, should be a msgspec.Struct class"),
        (
            "a hint for nothing",
            {**FILTER, "pod_hint": lambda self, pod, event, other: True, "events": ClusterEvent.NODE_ADDED},
            "it has pod_hint, and events names no change for which it would be asked",
        ),
        ("unreserve alone", {"permit": filter_, "unreserve": filter_}, "it has unreserve, and no reserve"),
        (
            "signature for nothing",
            {**FILTER, "depends_on": VOLUMES, "signature": lambda self, shape: 1},
            "it has signature, which is for plugins that depend on NODE and PODS_HERE only",
        ),
        (
            "looks nowhere else",
            {**FILTER, "looks_elsewhere": lambda self, pod, cluster, others: False},
            "it has looks_elsewhere, and depends_on says that it never looks elsewhere",
        ),
        (
            "never affected",
            {**FILTER, "affected_by": lambda self, pod, cluster, others: False},
            "it has affected_by, and depends_on says that it never looks elsewhere",
        ),
        ("counts by halves", {**FILTER, "needs": lambda self, pod: ()}, "of needs, free and takes it has only needs"),
        (
            "explains what it never said",
            {"permit": filter_, "explainer": Explainer},
            "it has explainer, and neither pre_filter nor filter: it rejects no node",
        ),
        (
            "explains too little",
            {**FILTER, "explainer": explaining(explain=lambda self, inquiry, row: ("", {}))},
            "its explainer's explain takes (inquiry, row), should take (inquiry, row, reason)",
        ),
        (
            "an explainer of nothing",
            {**FILTER, "explainer": explaining(__init__=lambda self: None)},
            "its explainer's __init__ takes (), should take (plugin)",
        ),
        (
            "nearly fixes",
            {**FILTER, "explainer": explaining(fixess=filter_)},
            "its explainer has fixess, which means nothing: did you mean fixes?",
        ),
        (
            "no class",
            {**FILTER, "explainer": "mine"},
            'its explainer is "mine", should be a class that derives from Explainer',
        ),
        (
            "explains itself",
            {**FILTER, "fixes": filter_, "explain": filter_},
            "it has explain and fixes, which is for a class of its own that derives from Explainer: name it, explainer",
        ),
        ("nearly an explainer", {**FILTER, "explainers": 7}, "it has explainers, which means nothing: did you mean"),
        (
            "one row alone",
            {**SCORE, "filter_one": lambda self, pod, nodes, row: True},
            "it has filter_one, and no filter",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)
def test_slips(id: str, members: dict[str, Any], says: str) -> None:
    """One line each."""
    found = problems_of(own(**members), "Own")
    if says:
        assert [line for line in found if line.startswith(says)], found
    else:
        assert found == []


def test_what_is_no_plugin() -> None:
    """Whatever a package offers."""
    assert problems_of(7, "Own") == ["want a class, got 7"]
    assert problems_of(dict, "dict") == ["it does not derive from podberth.kit.Plugin"]


@pytest.mark.parametrize("name", IN_TREE)
def test_ours(name: str) -> None:
    """Ours are held to the same."""
    assert problems_of(IN_TREE[name], name) == []


def test_what_follows() -> None:
    """What is kept, and what preemption may try for all nodes at once."""
    rows = [
        (NODE, (True, True, False)),
        (NODE | PODS_HERE, (False, True, False)),
        (PODS_HERE, (False, True, False)),
        (NODE | PODS_ELSEWHERE, (False, False, True)),
        (VOLUMES, (False, False, False)),
        (ANYTHING, (False, False, True)),
    ]
    for depends_on, wanted in rows:
        made = declaration_of(own(filter=filter_, depends_on=depends_on))
        assert (made.static, made.on_node, made.may_look_elsewhere) == wanted
