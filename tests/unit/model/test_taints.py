"""Which tolerations cover which taints (core/v1 ToleratesTaint)."""

import pytest

from podberth.model.taints import Taint, Toleration, intolerable_preferences, tolerates, untolerated

GPU = Taint("gpu", "a", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "Equal", "a", "NoSchedule"), True),
        (Toleration("gpu", "", "a", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "a"), True),
        (Toleration("gpu", "Equal", "b"), False),
        (Toleration("gpu", "Equal", ""), False),
        (Toleration("gpu", "Equal", "a", "NoExecute"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("gpu", "Exists", "b"), True),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("spot", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists", "", "PreferNoSchedule"), False),
        (Toleration("", "Equal", "a"), True),
        (Toleration("", "", ""), False),
        (Toleration("gpu", "Gt", "0"), False),
        (Toleration("gpu", "Lt", "9"), False),
        (Toleration("gpu", "exists"), False),
    ],
)
def test_toleration(toleration: Toleration, covers: bool) -> None:
    """Empty key or effect mean any; Gt and Lt cover nothing without their gate."""
    assert toleration.tolerates(GPU) is covers


@pytest.mark.parametrize(
    ("operator", "bound", "value", "covers"),
    [
        ("Gt", "9", "10", True),
        ("Gt", "9", "9", False),
        ("Lt", "9", "8", True),
        ("Lt", "9", "9", False),
        ("Gt", "-1", "0", True),
        ("Lt", "1", "-1", True),
        ("Gt", "9223372036854775806", "9223372036854775807", True),
        ("Lt", "9223372036854775808", "1", False),
        ("Gt", "1", "9223372036854775808", False),
        ("Gt", "1", "007", False),
        ("Gt", "01", "7", False),
        ("Gt", "1", "+7", False),
        ("Gt", "-0", "7", False),
        ("Gt", "1", "7.5", False),
        ("Lt", "", "7", False),
        ("Lt", "9", "", False),
    ],
)
def test_comparisons(operator: str, bound: str, value: str, covers: bool) -> None:
    """Of whole numbers of 64 bits in canonical form, with the gate TaintTolerationComparisonOperators."""
    toleration, taint = Toleration("sla", operator, bound), Taint("sla", value, "NoSchedule")
    assert toleration.tolerates(taint, comparing=True) is covers
    assert not toleration.tolerates(taint)
    assert not toleration.tolerates(Taint("other", value, "NoSchedule"), comparing=True)


def test_a_taint_without_value_is_equal_to_the_empty_value() -> None:
    """`operator: Equal` without a value covers it."""
    assert tolerates((Toleration("gpu"),), Taint("gpu", "", "NoExecute"))


@pytest.mark.parametrize(
    ("effects", "first"),
    [
        (["PreferNoSchedule"], None),
        (["PreferNoSchedule", "NoExecute", "NoSchedule"], "NoExecute"),
        (["NoSchedule"], "NoSchedule"),
        ([], None),
    ],
)
def test_only_hard_effects_reject(effects: list[str], first: str | None) -> None:
    """The first NoSchedule or NoExecute taint is found, a soft one never."""
    found = untolerated((), tuple(Taint("k", "", effect) for effect in effects))
    assert (found.effect if found else None) == first


@pytest.mark.parametrize(
    ("tolerations", "count"),
    [
        ((), 2),
        ((Toleration("a", "Exists"),), 1),
        ((Toleration("a", "Exists", "", "PreferNoSchedule"),), 1),
        ((Toleration("a", "Exists", "", "NoSchedule"),), 2),
        ((Toleration("", "Exists"),), 0),
    ],
)
def test_soft_taints_are_counted(tolerations: tuple[Toleration, ...], count: int) -> None:
    """Tolerations of hard effects say nothing of soft taints."""
    taints = (Taint("a", "", "PreferNoSchedule"), Taint("b", "", "PreferNoSchedule"), Taint("c", "", "NoSchedule"))
    assert intolerable_preferences(tolerations, taints) == count
