"""Labels by the thousand: told apart by a digest, in any order, and not indexed by key."""

from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.many_labels import MANY, ManyLabels, key_of, labels_of
from scheduler.model.selectors import LabelSelector, Requirement
from scheduler.state.label_index import LabelIndex
from tests.builders import pod
from tests.unit.work import lines

LABELS = {f"{i:x}": f"{i % 7}" for i in range(MANY + 1)}


def test_equal_labels_have_equal_keys_in_any_order() -> None:
    backwards = dict(reversed(LABELS.items()))
    assert key_of(labels_of(LABELS)) == key_of(labels_of(backwards))
    for other in ({**LABELS, "0": "1"}, {**LABELS, "0": LABELS["1"], "1": LABELS["0"]}, {**LABELS, "more": ""}):
        assert key_of(labels_of(LABELS)) != key_of(labels_of(other))


def test_few_labels_stay_a_plain_dict() -> None:
    few = dict(list(LABELS.items())[:MANY])
    assert labels_of(few) is few
    assert key_of(few) == frozenset(few.items())


def test_a_pod_of_many_labels_has_its_key_when_it_is_decoded() -> None:
    document = pod("worst")
    document["metadata"]["labels"] = LABELS
    decoded = Decoder().pod(wire.encode(document))
    assert isinstance(decoded.labels, ManyLabels)
    assert decoded.labels == LABELS
    assert lines(lambda: key_of(decoded.labels))[0] < 10


def test_to_number_a_thing_of_100_000_labels_costs_little() -> None:
    """It was a turn of 150 ms: each label was written into a list of its own."""
    index, worst = LabelIndex(), {f"{i:x}": "" for i in range(100_000)}
    assert lines(lambda: index.add(worst))[0] < 100
    assert lines(lambda: index.remove(0))[0] < 100


def test_a_label_that_nobody_had_is_found_without_a_look_at_things_of_many_labels() -> None:
    """They are looked at once for each key: others' terms by keys that are known cost what they did before."""
    index = LabelIndex()
    for i in range(500):
        index.add({**LABELS, "own": f"{i}"})
    index.add({"app": "a"})
    asked = [LabelSelector((Requirement("app", "In", frozenset((name,))),)) for name in ("a", "b")]
    assert index.select(asked[0].conditions or ()) == [500]
    taken, found = lines(lambda: index.select(asked[1].conditions or ()))
    assert found == []
    assert taken < 100


def test_a_selector_of_many_conditions_is_held_against_them_in_parts() -> None:
    index, parts = LabelIndex(), list[int]()
    for i in range(500):
        index.add({**LABELS, "own": f"{i}"})
    barred = tuple(Requirement(f"x{i}", "NotIn", frozenset(("v",))) for i in range(2_000))
    selector = LabelSelector((*barred, Requirement("own", "NotIn", frozenset(("7",)))))
    found = index.select(selector.conditions or (), None, selector.matches, parts.append)
    assert sum(found) == 499
    assert len(parts) > 50
