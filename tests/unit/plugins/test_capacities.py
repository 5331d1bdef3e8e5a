"""What a request takes of a capacity: the cases of upstream's own test of it (consumable_capacity_test.go)."""

import pytest

from podberth.model.devices import Capacity, CapacityRange
from podberth.model.quantity import Quantity, parse_quantity
from podberth.plugins.dynamic_resources.requested import CapacityError, taken

MOST = "9223372036854775807"
ONE_MORE = "9223372036854775808"
TOO_MUCH = "18446744073709551619"
NO_MILLI = "9224372036854776E3"
"""More thousandths than 64 bits hold, and more units."""
MANY = "9223372036854776"
"""More thousandths."""
REFUSED = "cannot be represented"
NONE = "is not offered"


def amount(text: str | None) -> Quantity | None:
    return None if text is None else parse_quantity(text)


def capacity(
    value: str, default: str | None = None, of: tuple[str | None, ...] | None = None, valid: list[str] | None = None
) -> Capacity:
    """A capacity with a policy. `of`: from, to, step."""
    low, high, step = of or (None, None, None)
    return Capacity(
        parse_quantity(value),
        value,
        True,
        amount(default),
        None if valid is None else tuple(map(parse_quantity, valid)),
        None if of is None else CapacityRange(amount(low), amount(high), amount(step)),
    )


TENTHS = ("200m", "1", "100m")


@pytest.mark.parametrize(
    ("asked", "of", "want"),
    [
        pytest.param(None, capacity("1"), "1", id="nothing asked, an empty policy"),
        pytest.param(None, capacity("2", "1", ("1", None, None)), "1", id="the default of a range"),
        pytest.param(None, capacity("2", "1", valid=["1"]), "1", id="the default of some values"),
        pytest.param("2", capacity("2", "1", ("1", None, None)), "2", id="more than the least"),
        pytest.param("1", capacity("2", "1", ("2", None, None)), "2", id="less than the least"),
        pytest.param("1", capacity("2", "1", ("1", "2", None)), "1", id="less than the most"),
        pytest.param("2", capacity("2", "1", ("1", "1", None)), NONE, id="more than the most"),
        pytest.param("2", capacity("3", "1", ("1", None, "2")), "3", id="up to the next step"),
        pytest.param("2", capacity("2", "1", ("1", None, "1")), "2", id="a step"),
        pytest.param("2", capacity("3", "1", ("1", None, "0")), "2", id="a step of nothing, which the API refuses"),
        pytest.param("250m", capacity("1", "200m", TENTHS), "300m", id="up to the next tenth"),
        pytest.param("400m", capacity("1", "200m", TENTHS), "400m", id="a tenth"),
        pytest.param("2", capacity("3", "1", valid=["1", "2", "3"]), "2", id="one of some values"),
        pytest.param("2", capacity("3", "1", valid=["1", "3"]), "3", id="up to the next value"),
        pytest.param("3", capacity("3", "1", valid=["1", "2"]), NONE, id="more than all values"),
        pytest.param("2", capacity("3", "1", valid=["1"]), NONE, id="none of the values"),
        pytest.param(TOO_MUCH, capacity(TOO_MUCH, "0", ("0", None, "3")), REFUSED, id="more than 64 bits"),
        pytest.param(MOST, capacity(ONE_MORE, "0", ("0", None, "2")), REFUSED, id="the next step is beyond 64 bits"),
        pytest.param(NO_MILLI, capacity(NO_MILLI, "1", ("100m", None, "100m")), REFUSED, id="no thousandths of it"),
        pytest.param(
            "9223372036854775806m",
            capacity("9223372036854775807m", "100m", ("100m", None, "100m")),
            REFUSED,
            id="the next step has too many thousandths",
        ),
        pytest.param("3", capacity("3", "1", (NO_MILLI, None, "1")), NO_MILLI, id="whole numbers beyond thousandths"),
    ],
)
def test_what_is_taken(asked: str | None, of: Capacity, want: str) -> None:
    """With ranges in thousandths."""
    requests = None if asked is None else {"memory": parse_quantity(asked)}
    if want == REFUSED:
        with pytest.raises(CapacityError, match=REFUSED):
            taken(requests, {"memory": of}, thousandths=True)
        return
    found = taken(requests, {"memory": of}, thousandths=True)
    assert (NONE if found is None else found["memory"].nano) == (NONE if want == NONE else parse_quantity(want).nano)


@pytest.mark.parametrize(
    ("asked", "of", "want"),
    [
        pytest.param("200m", TENTHS, "1", id="the least, a fraction"),
        pytest.param("250m", TENTHS, "1", id="between two steps"),
        pytest.param("100m", TENTHS, "200m", id="less than the least: taken as it is"),
        pytest.param(None, TENTHS, "200m", id="the default: taken as it is"),
        pytest.param("1", TENTHS, "1", id="a whole number"),
        pytest.param("1500m", ("500m", "4", "500m"), "2", id="a step of a half is a step of one"),
        pytest.param("2500m", ("1", "3", "2500m"), NONE, id="a step of two and a half is a step of three"),
        pytest.param("250m", ("200m", "300m", "100m"), NONE, id="rounded up beyond the most"),
        pytest.param(MANY, ("100m", None, "100m"), MANY, id="more thousandths than 64 bits hold"),
    ],
)
def test_what_is_taken_in_whole_numbers(asked: str | None, of: tuple[str | None, ...], want: str) -> None:
    """Without the gate DRAFractionalCapacityRange, as in kube-scheduler at its default flags."""
    requests = None if asked is None else {"memory": parse_quantity(asked)}
    found = taken(requests, {"memory": capacity(NO_MILLI, of[0], of)}, thousandths=False)
    assert (NONE if found is None else str(found["memory"])) == (NONE if want == NONE else str(parse_quantity(want)))


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_an_error_comes_before_what_is_too_small(names: tuple[str, str]) -> None:
    """In whichever order the capacities are."""
    capacities = {"a": Capacity(parse_quantity("1"), "1"), "b": capacity(ONE_MORE, None, ("0", None, "2"))}
    asked = {"a": parse_quantity("2"), "b": parse_quantity(MOST)}
    with pytest.raises(CapacityError, match=REFUSED):
        taken(asked, {name: capacities[name] for name in names}, thousandths=False)


def test_each_capacity_is_taken_by_its_own_rule() -> None:
    """What is asked for, the default, or all of it; what is not offered can't be asked for."""
    of = {
        "asked": capacity("2", "2", ("1", None, None)),
        "default": capacity("2", "1", ("1", None, None)),
        "all": Capacity(parse_quantity("1"), "1"),
    }
    found = taken({"asked": parse_quantity("1")}, of, thousandths=False)
    assert found is not None
    assert {name: str(one) for name, one in found.items()} == {"asked": "1", "default": "1", "all": "1"}
    assert taken({"other": parse_quantity("1")}, of, thousandths=False) is None


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        *((text, text) for text in ("2e0", "+5", "007", "1.500", "1E3", "1e03", "10e3", "100e0", "1.", "1.k", "+9Ki")),
        *((text, text) for text in ("09Ki", "1.250k", "1.500m", "1e+3", "123456789012345678e0", "9E", "1e-9")),
        ("1.5", "1500m"),
        ("0.500", "500m"),
        ("1e4", "10e3"),
        ("1000e0", "1e3"),
        ("+8Ki", "8Ki"),
        ("1024Ki", "1Mi"),
        ("+1.5Gi", "1536Mi"),
        ("1234567890123456789e0", "1234567890123456789"),
        ("0e0", "0"),
        ("+0", "0"),
    ],
)
def test_what_is_taken_is_written_as_it_was_asked_for(written: str, shown: str) -> None:
    """Where apimachinery takes the text to be canonical; these are kube-scheduler's texts of consumedCapacity."""
    of = {"memory": Capacity(parse_quantity("9E"), "9E")}
    found = taken({"memory": parse_quantity(written)}, of, thousandths=False)
    assert found is not None
    assert str(found["memory"]) == shown


@pytest.mark.parametrize(("asked", "want"), [("1", "1"), ("2", "4"), ("4", "4"), ("4500m", "7"), ("8", NONE)])
def test_whole_numbers(asked: str, want: str) -> None:
    """Without thousandths, steps of three from one on are counted in whole numbers, rounded up: 1, 4 and 7."""
    found = taken({"memory": parse_quantity(asked)}, {"memory": capacity("9", "1", ("1", "9", "3"))}, thousandths=False)
    assert (NONE if found is None else found["memory"].nano) == (NONE if want == NONE else parse_quantity(want).nano)
