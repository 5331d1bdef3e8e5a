"""Who waits for whom in a conflict, found by the pods that conflicts have in common."""

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from podberth.engine.placement_conflicts import Conflict
from podberth.evictor.conflicted import Conflicted, rank, related
from podberth.evictor.followed import Broken, Followed
from podberth.evictor.observed import Observed
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.wire import encode
from tests import builders

ZONE = "topology.kubernetes.io/zone"
CREATED = ("2026-11-27T10:00:00Z", "2026-11-27T10:00:05Z")


def made(i: int) -> Pod:
    """Of two priorities, and made at two times."""
    document = builders.pod(f"p{i}", uid=f"p{i}", on="n", priority=i % 3 // 2)
    document["metadata"]["creationTimestamp"] = CREATED[i % 2]
    return Decoder().pod(encode(document))


PODS = [made(i) for i in range(12)]
OURS, THEIRS = PODS[:8], PODS[4:]


class Seen:
    """The conflicts of pods as they are now."""

    def __init__(self) -> None:
        self.now: dict[str, Conflict] = {}
        self.conflicts = SimpleNamespace(of=self.now.get)


def conflict(pod: Pod, domain: str, others: set[int]) -> Conflict:
    found = tuple(THEIRS[i] for i in sorted(others) if THEIRS[i] is not pod)
    return Conflict(pod, "n", "anti_affinity", ZONE, domain, found, "")


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(OURS) - 1),
            st.none() | st.tuples(st.sampled_from("ab"), st.sets(st.integers(0, len(THEIRS) - 1), max_size=3)),
        ),
        max_size=30,
    ),
    st.frozensets(st.sampled_from([pod.uid for pod in PODS]), max_size=3),
)
def test_as_if_all_were_compared(steps: list[tuple[int, tuple[str, set[int]] | None]], read: frozenset[str]) -> None:
    """Conflicts come, change and end; then each pod waits if one of all that are related to it comes before it."""
    seen = Seen()
    conflicted = Conflicted(cast(Observed, seen))
    all_of_them = [Broken(Followed(pod, cast(Any, None), 0, 0.0), "", None) for pod in OURS]
    for i, found in steps:
        if found is None:
            seen.now.pop(OURS[i].uid, None)
        else:
            seen.now[OURS[i].uid] = conflict(OURS[i], *found)
        conflicted.look(all_of_them[i])
    conflicted.was_read(read)
    for broken in all_of_them:
        mine = broken.conflict
        assert mine == seen.now.get(broken.followed.pod.uid)
        before = [
            other.conflict
            for other in all_of_them
            if mine is not None
            and other is not broken
            and other.conflict is not None
            and related(mine, other.conflict)
            and rank(other.followed.pod, broken.followed.pod) < rank(broken.followed.pod, other.followed.pod)
        ]
        assert conflicted.waits(broken) == bool(before)
        assert broken.others_read == (mine is not None and any(pod.uid in read for pod in mine.others))
    for broken in all_of_them:
        conflicted.forget(broken)
    assert not any(conflicted.waits(broken) for broken in all_of_them)
