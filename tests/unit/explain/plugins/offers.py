"""What an explainer says of a node and offers, before anybody has tried whether it helps."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from podberth.explain.rejections import Asking
from podberth.framework.explaining import Inquiry
from podberth.model.pod import Pod
from tests.builders import Object, namespace
from tests.unit.explain.story import framework, world

Said = list[tuple[str, str, list[str]]]
"""(node, what is said of it, what is offered); all the changes of an offer are joined by ` and `."""


def said_of(incoming: Object, *objects: Object) -> Said:
    """Of each node that the first plugin rejects, in the order of its reasons."""
    there, profile = world([namespace("default"), *objects]), framework()
    pod = there.decode(incoming)
    assert isinstance(pod, Pod)
    rejected = profile.decide(pod, there.cluster).rejected
    asking = Asking(Inquiry(pod, there.cluster), profile)
    return [
        (
            there.cluster.nodes.names[row] or "",
            asking.detail(row, one.plugin, reason)[0],
            [" and ".join(map(str, fix)) for fix in asking.fixes(row, one.plugin, [reason])],
        )
        for one in rejected
        for reason, rows in one.reasons
        for row in rows.nonzero()[0].tolist()
    ]


GOLDEN = Path(__file__).parent / "golden"
Cases = Mapping[str, tuple[Object, Sequence[Object]]]
"""By name: a pod, and the objects that there are."""


def shown(case: tuple[Object, Sequence[Object]]) -> list[str]:
    """What is said of a case, line by line."""
    lines = []
    for node, text, offered in said_of(case[0], *case[1]):
        lines.append(f"{node}: {text}")
        lines += [f"  * {each}" for each in offered]
    return lines


def golden(name: str) -> dict[str, list[str]]:
    """What is to be said of each case: a file of lines, those of a case below its name."""
    parts = (GOLDEN / f"{name}.txt").read_text().split("\n\n")
    return {title: lines for title, *lines in (part.strip("\n").split("\n") for part in parts)}


def write(name: str, cases: Cases) -> None:
    """Write the file anew, to be read before it is kept."""
    said = ("\n".join([title, *shown(case)]) for title, case in cases.items())
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{name}.txt").write_text("\n\n".join(said) + "\n")
