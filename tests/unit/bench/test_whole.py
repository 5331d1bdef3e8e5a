"""Each limit at its maximum: the pods of `bench.whole` are what they say, and a small town takes them in."""

from dataclasses import replace

import pytest

from bench import whole
from bench.hostile.engines import Town
from bench.hostile.meters import steps
from bench.hostile.scenario import Scenario
from bench.hostile.town import encoded
from podberth.model.kinds import Decoder
from podberth.model.limits import NAMES, Limits

NODES = 100
CROWD = 20
TURN = 0.1
"""Seconds of steps in one turn; one object may delay others for so long."""


@pytest.fixture(scope="module")
def small() -> Town:
    """A town in which steps are counted."""
    return Town(NODES)


def test_every_limit_has_its_row() -> None:
    """But for annotations, which cost what the plugin makes of them."""
    assert set(whole.SHAPES) == set(Limits.__struct_fields__) - {"annotation_bytes"}


@pytest.mark.parametrize("limit", whole.SHAPES)
def test_pods_are_at_their_limit(limit: str) -> None:
    """Within it, and with one more beyond this one and no other."""
    decoder = Decoder()
    assert decoder.pod(encoded(whole.largest(limit, "a"))).too_large is None
    beyond = decoder.pod(encoded(whole.largest(limit, "a", 1))).too_large
    assert beyond is not None
    assert beyond.limit == NAMES[limit]


@pytest.mark.parametrize("scenario", whole.scenarios(CROWD), ids=lambda one: one.name)
def test_no_attempt_is_long(small: Town, scenario: Scenario) -> None:
    """Counted in steps of Python, which are the same on every machine."""
    measured = small.measure(replace(scenario, seconds=0.3), 0.3, 0.02, steps(TURN, 20 * TURN))
    assert measured.turn <= 1000 * TURN, f"{measured.what} takes more than {measured.turn:.0f} ms"
