"""What counts as one block of the event loop."""

import asyncio

import pytest

from podberth.service.blocks import BEAT, SLOWEST, Blocks


@pytest.mark.parametrize(
    ("planned", "wall", "cpu", "held", "following"),
    [
        pytest.param(BEAT, 0.0041, 0.004, 0.004, BEAT, id="busy, in short pieces"),
        pytest.param(BEAT, 0.050, 0.048, 0.048, BEAT, id="one long callback"),
        pytest.param(BEAT, 0.500, 0.060, 0.060, BEAT, id="mostly somebody else's time"),
        pytest.param(BEAT, 0.005, 0.0001, 0.0001, 2 * BEAT, id="at rest"),
        pytest.param(SLOWEST, 0.064, 0.001, 0.001, SLOWEST, id="at rest for long"),
        pytest.param(SLOWEST, 0.065, 0.030, 0.005, BEAT, id="work after rest, in pieces"),
        pytest.param(SLOWEST, 0.094, 0.060, 0.034, BEAT, id="work after rest, one long callback"),
    ],
)
def test_beats(planned: float, wall: float, cpu: float, held: float, following: float) -> None:
    """How long the loop was held, and when the next beat is due."""
    blocks = Blocks()
    assert blocks.beat(planned, wall, cpu) == pytest.approx(following)
    assert blocks.longest == pytest.approx(held)
    assert blocks.longest_wall == pytest.approx(wall - planned + BEAT)
    assert blocks.busy.total == (following == BEAT)


async def test_it_beats_until_stopped() -> None:
    """Each beat reads both clocks once; between the second and the third lies a long callback."""
    done = asyncio.Event()
    walls, cpus = iter((0.0, 0.004, 0.204)), iter((0.0, 0.004, 0.104))

    def cpu() -> float:
        spent = next(cpus, None)
        if spent is None:
            done.set()
        return 0.104 if spent is None else spent

    blocks = Blocks(lambda: next(walls, 0.208), cpu)
    blocks.start()
    await done.wait()
    blocks.stop()
    assert blocks.longest == pytest.approx(0.1)
    assert blocks.longest_wall == pytest.approx(0.2)
