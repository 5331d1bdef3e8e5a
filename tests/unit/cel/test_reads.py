"""Which attributes an expression can read: what differs in others only is the same to it."""

from collections.abc import Mapping
from random import Random

import pytest

from podberth.cel.errors import EvaluationError
from podberth.cel.library.quantities import Quantity
from podberth.cel.program import DeviceView, compile
from podberth.cel.reads import attributes_read
from tests.differential.generate.expressions import expression

ANY = None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('device.attributes["gpu.test"].model == "x"', {"gpu.test/model"}),
        ('device.attributes["gpu.test"].?model.orValue("") == "x"', {"gpu.test/model"}),
        ("device.attributes['a'][?'b'].hasValue() && has(device.attributes['c'].d)", {"a/b", "c/d"}),
        ('device . attributes [ "a" ] . b == 1', {"a/b"}),
        ('device.attributes["a"].b.startsWith("x")', {"a/b"}),
        ('device.driver == "x" && device.allowMultipleAllocations', set()),
        ('device.capacity["a"].exists(name, name == "x")', set()),
        ("true", set()),
        ('device.attributes["a"].exists(name, name == "x")', ANY),
        ('device.attributes["a"].exists // why\n (name, name == "x")', ANY),
        ('cel.bind(mine, device.attributes["a"], mine.b == 1)', ANY),
        ('"a" in device.attributes', ANY),
        ("device.attributes.a.b", ANY),
        ('device.attributes["""a"""].b', ANY),
        ('device.attributes["\\x61"].b', ANY),
        ('device.attributes[r"a"].b', ANY),
        ('device.attributes[device.driver].b == "x"', ANY),
        ("[device].size() == 1", ANY),
    ],
)
def test_attributes(text: str, want: set[str] | None) -> None:
    """Names are qualified by their domain; None: it may read any."""
    assert attributes_read(text) == want


NAMES = ("gpu.example.com/model", "index", "healthy", "other.com/k1", "version", "nope/nope")


def judged(text: str, attributes: Mapping[str, str | int | bool]) -> object:
    """What comes of an expression, with what it cost, or its error."""
    try:
        return compile(text).evaluate(DeviceView("gpu.example.com", attributes, {"memory": Quantity.parse("1Gi")}))
    except EvaluationError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(20))
def test_others_change_nothing(seed: int) -> None:
    """Not the result, not an error, not the cost: of generated expressions."""
    dice, tried = Random(seed), 0
    for number in range(60):
        text = expression(seed, number)
        read = attributes_read(text)
        if read is None or compile(text).error is not None:
            continue
        there = [name for name in NAMES if dice.random() < 0.7]
        own = {name for name in there if name in read or f"gpu.example.com/{name}" in read}
        found = {
            str(judged(text, {name: "a100" if name in own else dice.choice(("a", 7, True)) for name in there}))
            for _ in range(6)
        }
        assert len(found) == 1, text
        tried += 1
    assert tried > 20
