"""What is remembered of parsed objects: bounded by bytes, since one tenant's pod may be a megabyte."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.cache.column import Column
from podberth.model import pod as pods
from podberth.model import quantity
from podberth.model.annotated import AnnotationsRead
from podberth.model.kinds import Decoder
from podberth.model.node import parse_allocatable
from podberth.model.pod import Known
from podberth.model.shape import HEAVY
from podberth.model.taints import Taint, Toleration, Tolerations, intolerable_preferences, tolerates, untolerated
from podberth.model.wire import encode
from tests.builders import node, pod


def _big(i: int) -> Any:
    made = pod(f"p{i}", uid=f"p{i}")
    made["spec"]["tolerations"] = [{"key": f"k{i}-{j}", "operator": "Exists"} for j in range(3000)]
    return made


def test_big_shapes_do_not_pile_up() -> None:
    """A hundred pods of 100 KB each, no two alike: a few shapes are remembered, and the small one still is."""
    decoder = Decoder()
    small = decoder.pod(encode(pod("small", cpu="1")))
    sizes = 0
    for i in range(100):
        sizes += len(encode(_big(i)))
        big = decoder.pod(encode(_big(i)))
        assert big.shape.heavy
        assert decoder.pod(encode(_big(i))).shape is big.shape
    assert sizes > 2 * pods.BIG_BYTES
    assert decoder.interner.known_shapes.big_bytes <= pods.BIG_BYTES
    assert len(decoder.interner.known_shapes) < 60
    assert decoder.pod(encode(pod("other", cpu="1"))).shape is small.shape
    assert not small.shape.heavy


def test_big_label_maps_do_not_pile_up() -> None:
    """The same of labels."""
    decoder = Decoder()
    for i in range(100):
        made = pod(f"p{i}", uid=f"p{i}", labels={f"k{i}-{j}": "x" * 40 for j in range(2000)})
        decoder.pod(encode(made))
    assert len(decoder.interner.known_labels) < 60


def test_small_things_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many that are just not big."""
    monkeypatch.setattr(pods, "SMALL_BYTES", 10 * HEAVY)
    known: Known[int, str] = Known(50_000)
    for i in range(100):
        known.put(i, "thing", HEAVY)
        assert known.get(i) == "thing"
        assert len(known) <= 10


def test_long_texts_are_not_remembered() -> None:
    """Quantities and lists of resources that are long are parsed each time."""
    before = quantity.remembered.cache_info().currsize
    for i in range(20):
        assert quantity.parse_nano(f"{i}" + "." + "0" * 10_000) == i * quantity.NANO
        assert quantity.parse_nano("0" * 10_000 + f"{i}.5") == i * quantity.NANO + quantity.NANO // 2
        assert quantity.parse_nano(f"{i}." + "0" * 10_000 + "1") == i * quantity.NANO + 1
    assert quantity.remembered.cache_info().currsize == before
    assert quantity.is_absurd(quantity.parse_nano("9" * 10_000 + "e-64"))
    known = parse_allocatable.cache_info().currsize
    made = node("n", cpu="4", pods="10")
    made["status"]["allocatable"] |= {f"example.com/r{i}": "1" for i in range(1000)}
    assert Decoder().node(encode(made)).allocatable["example.com/r9"] == 1
    assert parse_allocatable.cache_info().currsize == known


def test_answers_about_a_column_are_bounded_by_bytes() -> None:
    """Thousands of questions to a column of thousands of values."""
    column: Column[str] = Column(5000)
    for row in range(5000):
        column.set(row, f"v{row}")
    for i in range(2000):
        assert column.map(5000, ("soft", i), lambda value: len(value or "")).sum() > 5000
    assert column.kept().questions > 50
    assert column.kept().size <= 8 << 20


def test_a_question_that_raises_counts_as_nothing_kept() -> None:
    """A plugin's function may raise in each attempt: other answers are kept all the same."""
    column: Column[str] = Column(5000)
    for row in range(5000):
        column.set(row, f"v{row}")
    for i in range(150):
        with pytest.raises(TypeError):
            column.map(5000, ("raises", i), len)  # type: ignore[arg-type]
    for question in ("one", "other"):
        column.map(5000, question, lambda value: len(value or ""))
    assert column.kept().questions == 2


names = st.sampled_from(("", "a", "b"))
values = st.sampled_from(("", "a", "1", "2", "3", "03", "-1", "9223372036854775808"))
effects = st.sampled_from(("", "NoSchedule", "PreferNoSchedule", "NoExecute"))
some_taints = st.lists(st.builds(Taint, names, values, effects), max_size=4).map(tuple)
of_a_pod = st.lists(
    st.builds(Toleration, names, st.sampled_from(("", "Equal", "Exists", "Lt", "Gt")), values, effects), max_size=5
)


@given(of_a_pod, some_taints, st.booleans())
def test_many_tolerations_cover_what_each_of_them_covers(
    own: list[Toleration], on_node: tuple[Taint, ...], comparing: bool
) -> None:
    """Looked up among thousands, or gone through."""
    others = [Toleration(f"other{i}", "Exists") for i in range(20)]
    many, few = Tolerations([*others, *own]), tuple(own)
    for taint in on_node:
        assert tolerates(many, taint, comparing=comparing) == tolerates(few, taint, comparing=comparing)
    for count in (untolerated, intolerable_preferences):
        assert count(many, on_node, comparing=comparing) == count(few, on_node, comparing=comparing)


def test_no_toleration_is_gone_through_for_each_taint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of tolerations, thousands of taints: a look-up for each taint finds the one in question."""
    asked = []

    def noted(self: Toleration, taint: Taint, *, comparing: bool = False) -> bool:
        asked.append(taint)
        return True

    monkeypatch.setattr(Toleration, "tolerates", noted)
    many = Tolerations(Toleration(f"k{i}", "Equal", f"v{i}") for i in range(2000))
    taints = [Taint(f"k{i}", f"v{i}", "NoSchedule") for i in range(2000)]
    assert all(tolerates(many, taint) for taint in taints)
    assert asked == taints


def test_the_decoder_of_large_objects_shares_nothing_with_the_loops() -> None:
    """It works in another thread: neither what is known nor the count of its bytes may be the same."""
    one = Decoder(AnnotationsRead({"berth": "add"}))
    other = one.beside()
    raw = encode(pod("web", cpu="1", labels={"app": "web"}))
    assert one.pod(raw).shape is one.pod(raw).shape
    assert other.pod(raw).shape is other.pod(raw).shape
    assert one.pod(raw).shape is not other.pod(raw).shape
    assert one.pod(raw).labels is not other.pod(raw).labels
    assert not other.follow(AnnotationsRead({"berth": "add"})), "it reads annotations as the other one does"
    assert other.follow(AnnotationsRead())
    assert not one.follow(AnnotationsRead({"berth": "add"})), "which is not told of what this one is told"
