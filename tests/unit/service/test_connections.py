"""Who has to go when a port is full, in tables: no sockets, no clock."""

from __future__ import annotations

import pytest

from podberth.service.port import FEWEST, Connection, Connections, Limits, Stage, peer_of

LIMITS = Limits(most=6, of_peer=4, kept=2, ask=10.0, idle=60.0, answer=30.0)
A, I, R, W = Stage.ASKING, Stage.IDLE, Stage.RECEIVING, Stage.ANSWERING  # noqa: E741


def full(*there: tuple[str, Stage]) -> tuple[Connections, list[Connection]]:
    """Connections that came one second after the other, as far as they have got."""
    made = Connections(LIMITS)
    held = []
    for now, (peer, stage) in enumerate(there):
        one, gone = made.enter(peer, float(now))
        assert gone is None
        made.turn(one, stage, float(now))
        held.append(one)
    return made, held


@pytest.mark.parametrize(
    ("id", "there", "goes"),
    [
        ("room for all", [("a", A)], None),
        ("a peer's own goes first", [("b", A), ("a", A), ("a", A), ("a", A), ("a", A)], 1),
        ("its idle ones after those that never asked", [("a", I), ("a", I), ("a", A), ("a", I)], 2),
        ("its bodies last", [("a", R), ("a", R), ("a", I), ("a", R)], 2),
        ("in all: the peer with most", [("b", A), ("c", A), ("b", A), ("d", A), ("b", A), ("c", A)], 0),
        ("in all: the oldest of equals", [("b", A), ("c", A), ("d", A), ("e", A), ("f", A), ("g", A)], 0),
        ("who never asked, whoever has most", [("b", I), ("b", I), ("b", I), ("c", A), ("d", I), ("e", I)], 3),
        ("what is answered stays", [("b", W), ("b", W), ("b", W), ("c", W), ("d", I), ("e", W)], 4),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_goes(id: str, there: list[tuple[str, Stage]], goes: int | None) -> None:
    """A new connection of peer `a` finds room."""
    made, held = full(*there)
    new, gone = made.enter("a", 100.0)
    assert new in list(made)
    assert not new.kept
    assert gone is (None if goes is None else held[goes])
    assert gone not in list(made)


@pytest.mark.parametrize("peers", ["aaaa", "bcdefg"])
def test_places_are_kept_for_health(peers: str) -> None:
    """While all are being answered a new one has a kept place, the newest there are; nobody is cut off for it."""
    made, held = full(*((peer, W) for peer in peers))
    news = [made.enter("a", 100.0 + i) for i in range(5)]
    assert all(new.kept for new, _ in news)
    assert [gone for _, gone in news] == [None, None, *(new for new, _ in news[:3])]
    assert set(held) <= set(made)
    assert len(made) == len(peers) + LIMITS.kept


def test_a_kept_place_is_given_back() -> None:
    """Whoever leaves makes room, and saying so twice changes nothing."""
    made, held = full(*[("a", W)] * 4)
    made.leave(held[0])
    made.leave(held[0])
    new, gone = made.enter("a", 100.0)
    assert (new.kept, gone, len(made)) == (False, None, 4)


def test_deadlines() -> None:
    """Each stage has its own; a stage that goes on does not begin again."""
    made, (asking, idle, receiving, answering) = full(("a", A), ("b", I), ("c", R), ("d", W))
    assert made.overdue(9.9) == []
    assert made.overdue(10.0) == [asking]
    assert made.overdue(32.0) == [asking, receiving]
    assert made.overdue(33.0) == [asking, receiving, answering]
    assert made.overdue(61.0) == [asking, idle, receiving, answering]


def test_a_thousand_of_one_peer() -> None:
    """They close their own, oldest first, and a probe from the same address is never the one to go."""
    made = Connections(LIMITS)
    for now in range(1000):
        made.enter("node", float(now))
        assert len(made) <= LIMITS.of_peer
    probe, _ = made.enter("node", 1000.0)
    for now in range(1, LIMITS.of_peer):
        made.enter("node", 1000.0 + now)
        assert probe in list(made)


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.0.0.1", 4711), "10.0.0.1"),
        (("::ffff:10.0.0.1", 4711, 0, 0), "10.0.0.1"),
        (("fd00:1:2:3:4:5:6:7", 4711, 0, 0), "fd00:1:2:3::"),
        (("fe80::1%eth0", 4711, 0, 2), "fe80::"),
        ("", ""),
    ],
)
def test_peers(address: object, peer: str) -> None:
    """An IPv6 address counts by the 64 bits that one owner has all addresses of."""
    assert peer_of(address) == peer


def test_few_descriptors() -> None:
    """Where a process may open few files a port takes half of what is left, and some always."""
    limits = Limits(most=512, of_peer=448, kept=16, ask=10.0, idle=60.0, answer=30.0)
    assert limits.within(1 << 20) == limits
    assert (limits.within(1024).most, limits.within(1024).of_peer) == (384, 336)
    assert (limits.within(64).most, limits.within(64).of_peer) == (FEWEST, 14)
