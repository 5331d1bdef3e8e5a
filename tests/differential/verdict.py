"""What comes of one case: whether Berth says what kube-scheduler's plugins say."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podberth.framework.status import printable
from tests.conformance.comparison import Case, described, differing
from tests.differential.answers import answer
from tests.differential.client import Oracle

PATIENCE = 300
"""Preemptions until a node that Berth picks and kube-scheduler has not yet picked counts as wrong."""

FAILS_UPSTREAM = (
    re.compile(r"could not translate pv: failed to get region from zones: zone in unexpected format"),
    re.compile(r"timed out trying to allocate devices"),  # after ten seconds, on a busy machine
    re.compile(r"PVC \S+ was not created for pod \S+ \(pod is not owner\)"),
)
"""Cycles that end in an error there and not here, on purpose: docs/equal.md says why."""


_OF_DEVICES = re.compile(r"claim .*(request|selector|pool)")
_POINT = re.compile(r'^running (?:\w+ plugin "\w+"|"\w+" \w+ plugin): ')


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind`: bound, pending, preempting, failed (upstream, see above), refused (no valid case), different."""

    id: str
    kind: str
    texts: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


def judge(oracle: Oracle, vectors: list[Case]) -> list[Verdict]:
    """The verdict on each line of `Oracle.vectors`, in order."""
    found = [judged(vector) for vector in vectors]
    unsure = [i for i, verdict in enumerate(found) if verdict.fields == ("preemption",)]
    asked = [{**vectors[i], "repeat": PATIENCE} for i in unsure]
    for i, more in zip(unsure, oracle.answers(asked) if asked else (), strict=True):
        found[i] = judged({**vectors[i], "want": more["want"]})
    return found


def _same_failure(got: str, want: Case) -> bool:
    """Whether a node's error is told in the same words, where they are about devices. Which node's is chance."""
    said = {printable(_POINT.sub("", text)) for text in want.get("errors", ())}
    return _POINT.sub("", got) in said or not any(map(_OF_DEVICES.search, said))


def judged(vector: Case) -> Verdict:
    """The verdict on one line, whose preemptions are taken as they are."""
    name = vector["id"]
    if "error" in vector:
        return Verdict(name, "refused", (f"{name}: {vector['error']}",))
    want, got = vector["want"], answer(vector)
    if "error" in want:
        deliberate = any(pattern.search(want["error"]) for pattern in FAILS_UPSTREAM)
        if deliberate or ("error" in got and _same_failure(got["error"], want)):
            return Verdict(name, "failed")
        return Verdict(name, "different", (f"{name} error: got {got}, want {want['error']}",), ("error",))
    if "error" in got:
        return Verdict(name, "different", (f"{name} error: got {got['error']}, want {want}",), ("error",))
    fields = differing(got, want)
    if fields:
        return Verdict(name, "different", tuple(described(vector, got, want)), tuple(fields))
    kind = "preempting" if want.get("preemption") else "bound" if want["feasible"] else "pending"
    return Verdict(name, kind)
