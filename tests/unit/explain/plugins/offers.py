"""What an explainer says of a node and offers, before anybody has tried whether it helps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from podberth.explain.changes import Fix
from podberth.explain.rejections import Asking
from podberth.framework.explaining import Detail, Inquiry
from podberth.framework.status import Reason
from podberth.model.pod import Pod
from tests.builders import Object, namespace, pod
from tests.devices import claiming
from tests.unit.explain.story import framework, world

GOLDEN = Path(__file__).parent / "golden"
Cases = Mapping[str, tuple[Object, Sequence[Object]]]
"""By name: a pod, and the objects that there are."""


def shown(case: tuple[Object, Sequence[Object]]) -> list[str]:
    """What is said of a case, line by line: in words, as data (`=`), and what is offered (`*`)."""
    incoming, objects = case
    there, profile = world([namespace("default"), *objects]), framework()
    asked = there.decode(incoming)
    assert isinstance(asked, Pod)
    decision = profile.decide(asked, there.cluster)
    asking = Asking(Inquiry(asked, there.cluster), profile)
    lines: list[str] = []
    if decision.verdict is not None:
        name, reason = decision.verdict
        lines += _told("the pod", asking.detail_of_pod(name, reason), ())
    for one in decision.rejected:
        against: dict[int, list[Reason]] = {}
        for reason, rows in one.reasons:
            for row in rows.nonzero()[0].tolist():
                node = there.cluster.nodes.names[row] or ""
                offered = asking.fixes(row, one.plugin, [reason])
                lines += _told(node, asking.detail(row, one.plugin, reason), offered)
                against.setdefault(row, []).append(reason)
        for row, reasons in against.items():
            if len(reasons) > 1:
                node = there.cluster.nodes.names[row] or ""
                lines += [f"{node}, against all of it:", *_offered(asking.fixes(row, one.plugin, reasons))]
    return lines


def users(objects: Sequence[Object]) -> list[Object]:
    """The placed pods that claims are reserved for, each on the node of its device."""
    found = []
    for each in objects:
        status = each.get("status", {}) if each["kind"] == "ResourceClaim" else {}
        for user in status.get("reservedFor", ()):
            if user.get("resource") == "pods":
                on = status["allocation"]["devices"]["results"][0]["pool"]
                found.append(claiming(pod(user["name"], on=on, uid=user["uid"]), each["metadata"]["name"]))
    return found


def _told(what: str, detail: Detail, offered: Sequence[Fix]) -> Iterator[str]:
    text, data = detail
    yield f"{what}: {text}"
    if data:
        yield f"  = {json.dumps(data, ensure_ascii=False)}"
    yield from _offered(offered)


def _offered(fixes: Sequence[Fix]) -> Iterator[str]:
    """The changes of a fix are joined by ` and `; one without any is not offered."""
    return (f"  * {' and '.join(map(str, fix))}" for fix in fixes if fix)


def golden(name: str) -> dict[str, list[str]]:
    """What is to be said of each case: a file of lines, those of a case below its name."""
    parts = (GOLDEN / f"{name}.txt").read_text().split("\n\n")
    return {title: lines for title, *lines in (part.strip("\n").split("\n") for part in parts)}


def write(name: str, cases: Cases) -> None:
    """Write the file anew, to be read before it is kept."""
    said = ("\n".join([title, *shown(case)]) for title, case in cases.items())
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{name}.txt").write_text("\n\n".join(said) + "\n")
