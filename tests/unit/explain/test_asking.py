"""Wrong answers of plugins from outside about their rejections are noted, and end nothing."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from podberth.explain import changes
from podberth.explain.changes import Change, Request
from podberth.explain.explain import explain
from podberth.explain.explanation import Explanation
from podberth.explain.plugins import EXPLAINERS, explainer_of
from podberth.explain.plugins.node_fields import NodeUnschedulableExplainer
from podberth.framework.config import decode
from podberth.framework.declaration import declaration_of, problems_of
from podberth.framework.profiles import build
from podberth.kit import NODE, Explainer, Fix, Plugin, Unschedulable
from podberth.model.pod import Pod
from podberth.plugins.node_unschedulable import NodeUnschedulable
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, namespace, node, pod, profile
from tests.messages import without_place
from tests.unit.explain.story import why, world

ODD = "node(s) were odd"


class Outside(Plugin):
    """Rejects all nodes, with what its subclasses say of it."""

    name = "Outside"
    depends_on = NODE

    def filter(self, pod: Any, cluster: Any) -> Any:
        """No node will do."""
        return [(Unschedulable(ODD), cluster.nodes.alive[: cluster.nodes.rows])]


def asked(plugin: Any, *names: str) -> Explanation:
    """The explanation of a pod that this plugin keeps from nodes of these names."""
    plugin.__module__ = "outside"  # as a package of somebody else's: its answers are checked
    profiles = profile(plugins={"multiPoint": {"enabled": [{"name": "Outside"}]}})
    [framework] = build(decode(configuration(profiles)), {**IN_TREE, "Outside": plugin}).values()
    there = world([namespace("default"), *(node(name) for name in names)])
    incoming = there.decode(pod("p"))
    assert isinstance(incoming, Pod)
    return explain(incoming, framework, there.cluster)


def explained_by(explaining: type[Explainer]) -> Any:
    """A plugin with this explainer."""

    class Explained(Outside):
        explainer = explaining

    return Explained


def saying(detail: Any = ("", {}), fixes: Any = ()) -> Any:
    """A plugin with these answers, each either the answer or what returns it for a node's name."""

    def of(answer: Any, inquiry: Any, row: int) -> Any:
        return answer(inquiry.node(row).name) if callable(answer) else answer

    class Saying(Explainer):
        def explain(self, inquiry: Any, row: int, reason: Any) -> Any:
            return of(detail, inquiry, row)

        def fixes(self, inquiry: Any, row: int, reasons: Sequence[Any]) -> Any:
            return of(fixes, inquiry, row)

    return explained_by(Saying)


def test_nothing_to_say() -> None:
    """The reason's own text stands, no change is offered, and nobody is blamed."""
    answer = asked(Outside, "n")
    assert (why(answer, "n"), answer.remedies, answer.notes) == ([ODD], [], [])


def test_an_empty_text_leaves_the_reasons_own() -> None:
    """The data is shown all the same."""
    answer = asked(saying(("", {"a": 1})), "n")
    assert (why(answer, "n"), answer.rejected[0].findings[0].numbers) == ([ODD], {"a": 1})


@pytest.mark.parametrize(
    "detail",
    [
        None,
        "odd",
        ("odd",),
        (7, {}),
        ("odd", ["a"]),
        ("odd", {"a": object()}),
    ],
    ids=repr,
)
def test_explanations_that_are_none(detail: Any) -> None:
    """One note for all nodes."""
    answer = asked(saying(detail), "n", "m")
    assert (why(answer, "n"), why(answer, "m")) == ([ODD], [ODD])
    [note] = answer.notes
    assert note.startswith('plugin "Outside" could not explain its rejections: ')
    assert msgspec.json.encode(answer)


@pytest.mark.parametrize(
    "fixes",
    [
        None,
        [changes.Uncordon("n")],
        [({"kind": "uncordon", "node": "n"},)],
        [(changes.Tolerate(1, "", ""),)],  # type: ignore[arg-type]
        [("restart it",)],
        lambda name: [(Request({"cpu": 1}, {}),)],
        lambda name: [(Request({}, {}),)],
    ],
    ids=repr,
)
def test_fixes_that_are_none(fixes: Any) -> None:
    """One note, and no remedy of this plugin's."""
    answer = asked(saying(fixes=fixes), "n", "m")
    [note] = answer.notes
    assert note.startswith('plugin "Outside" could not say what would help: ')
    assert not answer.remedies


@pytest.mark.parametrize(
    "change",
    [
        changes.MovePod("no/body", "nowhere"),
        changes.Uncordon("nowhere"),
        changes.AddNode("nowhere"),
        changes.DropRequirement(7, "x"),
        Request({"cpu": -(1 << 70), "no such": 1 << 70}, {"cpu": 1, "no such": 1}),
    ],
    ids=str,
)
def test_changes_that_help_nobody(change: Change) -> None:
    """They are tried, do not help, and are not shown."""
    answer = asked(saying(fixes=[(), (change,)]), "n")
    assert (answer.remedies, answer.notes) == ([], [])


def test_the_nearest_first() -> None:
    """By `needed` and `free`, whatever their size; without them, or without sense in them, all is missing."""
    numbers: dict[str, dict[str, Any]] = {
        "most": {"needed": 10, "free": 9},
        "half": {"needed": 10, "free": 5.0},
        "huge": {"needed": 1, "free": -(10**400)},
        "text": {"needed": "10", "free": 9},
        "less": {"needed": 10, "free": -2},
    }
    answer = asked(saying(lambda name: ("", numbers[name])), *sorted(numbers))
    assert [each.node for each in answer.rejected] == ["most", "half", "huge", "text", "less"]


def test_an_explainer_that_can_not_be_made() -> None:
    """It is told once for each thing that is asked, as if its methods failed."""

    class Broken(Explainer):
        def __init__(self, plugin: Any) -> None:
            raise RuntimeError("no idea")

    answer = asked(explained_by(Broken), "n", "m")
    assert why(answer, "n") == [ODD]
    assert [without_place(note) for note in answer.notes] == [
        'plugin "Outside" could not explain its rejections: no idea',
        'plugin "Outside" could not say what would help: no idea',
    ]


def test_it_knows_its_plugin() -> None:
    """The instance of the profile, not a wrapper: an explainer may use all that the plugin has."""

    class Knowing(Explainer):
        def explain(self, inquiry: Any, row: int, reason: Any) -> Any:
            return type(self.plugin).__name__, {}

    assert why(asked(explained_by(Knowing), "n"), "n") == ["Explained"]


def test_what_derives_from_a_plugin_of_ours_is_explained_like_it() -> None:
    """Under its own name, unless it names an explainer."""

    class Cordoned(NodeUnschedulable):
        name = "Cordoned"

    class Silent(Cordoned):
        explainer = Explainer

    assert explainer_of(Cordoned) is explainer_of(NodeUnschedulable) is NodeUnschedulableExplainer
    assert explainer_of(Silent) is explainer_of(Outside) is Explainer


@pytest.mark.parametrize("name", EXPLAINERS)
def test_ours_explain_what_they_reject(name: str) -> None:
    """Each has a plugin of its name that rejects something, and methods that can be called."""
    methods = declaration_of(IN_TREE[name]).methods
    assert methods & {"pre_filter", "filter"}
    own = type("Own", (IN_TREE[name],), {"name": "Own", "explainer": EXPLAINERS[name]})
    assert problems_of(own, "Own") == []


def test_asked_once() -> None:
    """Facts that are the same for all nodes are found once."""
    found = []

    class Counting(Explainer):
        def explain(self, inquiry: Any, row: int, reason: Any) -> Any:
            return inquiry.once("Outside", lambda: found.append(row) or "looked up"), {}  # type: ignore[func-returns-value]

    answer = asked(explained_by(Counting), "n", "m")
    assert (why(answer, "n"), why(answer, "m"), len(found)) == (["looked up"], ["looked up"], 1)


def test_kinds_of_changes() -> None:
    """Scripts tell changes apart by these words; what they encode to is what they are decoded from."""
    every: list[Change] = [
        Request({"cpu": 1}, {"cpu": 2}),
        changes.Tolerate("k", "v", "NoSchedule"),
        changes.DropNodeSelector("k", "v"),
        changes.RespellNodeSelector("k", "v", "k", "w"),
        changes.DropRequirement(0, "k in (v)"),
        changes.DropPodTerm(True, "t", "pods", "zone"),
        changes.SoftenSpread("zone"),
        changes.DropHostPort("", "TCP", 80),
        changes.Ungate(["g"]),
        changes.Uncordon("n"),
        changes.RemoveTaint("n", "t"),
        changes.Label("n", "k", "v"),
        changes.MovePod("p", "n"),
        changes.AddNode("n"),
    ]
    encoded = msgspec.json.encode([tuple(every)])
    assert msgspec.json.decode(encoded, type=list[Fix]) == [tuple(every)]
    kinds = "request tolerate dropNodeSelector respellNodeSelector dropNodeAffinity"
    kinds += " dropPodTerm softenSpread dropHostPort ungate uncordon removeTaint label movePod addNode"
    assert " ".join(each["kind"] for each in msgspec.json.decode(encoded)[0]) == kinds
