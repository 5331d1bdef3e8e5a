"""Whatever a request holds, there is an answer or a CaseError that names the field; never another exception."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.policy.cases import CaseError, answer
from tests.unit.policy.build import NAME, QOS, needs, policy, rule

FIELDS = ["apiVersion", "kind", "metadata", "spec", "status", "labels", "annotations", "namespace", "name"]
FIELDS += [
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "qosClass",
    "schedulerName",
    NAME,
    QOS,
]
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["Pod", "v1", "BestEffort", "berth", "1", "\x00\x1b[2J", "x" * 300, "1e999", "~/"]),
    st.text(max_size=8),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.text(max_size=4)), inner, max_size=5),
    ),
    max_leaves=25,
)
likely = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.sampled_from(["Pod", "Secret"])},
    optional={"metadata": values, "spec": values, "status": values},
)
POLICIES = [
    policy("set", rule(annotations=needs(QOS, "Exists"), set_annotations={NAME: "berth"}, set_labels={"a": "b"})),
    policy("tell", rule(needs("a", "DoesNotExist"), reject=True), mode="warn"),
]


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(likely, values),
    st.one_of(st.none(), likely, values),
    st.sampled_from(["CREATE", "UPDATE"]),
    st.sampled_from(["mutate", "validate"]),
)
def test_hostile_objects(obj: Any, old: Any, operation: str, which: str) -> None:
    """A verdict is complete, and its warnings can be sent."""
    case = {"policies": POLICIES, "operation": operation, "object": obj, "oldObject": old, "options": {"pass": which}}
    try:
        got = answer(case)
    except CaseError as error:
        assert "\n" not in str(error)
        return
    assert got["code"] == (200 if got["allowed"] else 403)
    assert all(len(warning) <= 120 and warning.isprintable() for warning in got["warnings"])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["namespace", "userInfo", "ownerSelector", "pass", "liveSchedulers"]), values))
def test_hostile_options(given_options: Any) -> None:
    """Options are read, or named as wrong."""
    try:
        answer({"object": {"apiVersion": "v1", "kind": "Pod"}, "options": given_options})
    except CaseError as error:
        assert str(error).startswith("options")
