"""What the comparison holds to be the same, and what it does not."""

from __future__ import annotations

import pytest

from tests.as_created.foretold import Fate
from tests.as_created.seen import _at_a_moment, _same
from tests.controlplane.api import Object

FULL = "0/1 nodes are available: 1 Insufficient cpu."
NEAR = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
WRONG = "0/1 nodes are available: 1 Too many pods."


def pod(name: str, message: str = "", *, on: str = "") -> Object:
    """A pod that waits with a message, or is on a node."""
    status = {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable", "message": message}]}
    return {"metadata": {"namespace": "c", "name": name}, "spec": {"nodeName": on}, "status": status}


@pytest.mark.parametrize(
    ("pods", "same"),
    [
        ([pod("a", on="n1"), pod("b", FULL)], True),
        ([pod("a", on="n1"), pod("b", NEAR)], True),
        ([pod("a", on="n1"), pod("b", WRONG)], False),
        ([pod("a", NEAR), pod("b", on="n1")], False),
        ([pod("a", on="n2"), pod("b", FULL)], False),
        ([pod("a", on="n1"), pod("b", FULL), pod("d", FULL)], False),
        ([pod("a", on="n1")], False),
        ([pod("b", FULL), pod("d", FULL)], False),
    ],
)
def test_a_message_of_another_moment(pods: list[Object], *, same: bool) -> None:
    """It is right for the pod of which it was so, and for no other; where the pods are has to be right all the same."""
    said = {"c/b": {NEAR}}
    assert _at_a_moment(pods, Fate({"n1": 1}, {FULL: 1}), said) is same


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ('pods "a" is forbidden: exceeded quota: q0, requested: pods=1, used: pods=3, limited: pods=3', True),
        ('pods "a" is forbidden: exceeded quota: q0, requested: pods=1, used: pods=2, limited: pods=3', False),
        ('pods "a" is forbidden: exceeded quota: q1, requested: pods=1, used: pods=3, limited: pods=3', False),
    ],
)
def test_the_words_of_a_quota(said: str, *, same: bool) -> None:
    """Whom they are about is not compared, all else is."""
    assert _same("exceeded quota: q0, requested: pods=1, used: pods=3, limited: pods=3", said) is same
