"""What SIGUSR2 compares: told in full, and never for long at a time."""

from typing import Any

from podberth.app.comparer import AT_ONCE, differences
from podberth.engine.engine import Engine
from podberth.engine.stimuli import Gone, Put
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import configuration, node, pod
from tests.registered import registry

DECODER = Decoder()


def read(document: Any) -> Any:
    return DECODER.of_kind(document["kind"])(wire.encode(document))


def made(name: str, on: str = "") -> Any:
    document = pod(name)
    document["kind"] = "Pod"
    if on:
        document["spec"]["nodeName"] = on
    return read(document)


def test_differences_are_found_in_turns() -> None:
    """Between two turns others have theirs, and may change what is compared."""
    engine = Engine(build(decode(configuration()), registry()))
    nodes = [read(node(f"n{i}")) for i in range(2)]
    pods = [made(f"p{i}", "n0") for i in range(3 * AT_ONCE)] + [made(f"w{i}") for i in range(AT_ONCE)]
    for thing in [*nodes, *pods]:
        engine.handle(Put(thing), 0.0)
    assert [line for line in differences(engine, nodes, pods) if line is not None] == []
    listed = [*pods[1:-1], made("new", "n1")]
    found: list[str] = []
    turn = turns = 0
    for line in differences(engine, nodes[:1], listed):
        if line is None:
            turns += 1
            turn = 0
            engine.handle(Gone("Pod", "default", f"p{turns + 5}", f"default/p{turns + 5}"), 0.0)
            engine.handle(Put(made(f"more{turns}")), 0.0)
        else:
            turn += 1
            found.append(line)
    assert turns >= 9
    told = "\n".join(found)
    assert "node n1: not listed" in told
    assert "pod default/p0: cached on n0, not listed" in told
    assert "pod default/new: cached on no node, listed on n1" in told
    assert f"pod default/w{AT_ONCE - 1}: in the queue, not listed" in told
