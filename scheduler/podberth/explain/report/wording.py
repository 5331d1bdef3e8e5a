"""Words and numbers as every report writes them."""

import re
from collections.abc import Iterator, Mapping, Sequence

from podberth.explain.changes import AddNode
from podberth.explain.doubts import undecided
from podberth.explain.explanation import Explanation, FeasibleNode, Remedy

_SHELL_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")
_JSON_PIECE = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^",])*(?:,|$)')
"""The text as far as a comma that is not within a JSON string."""
_QUOTE = "'\"'\"'"
"""A single quote in a text in single quotes."""
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control characters but for tabs and line ends, and what turns the direction of a text or shows nothing."""
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def printable(text: str) -> str:
    """Return the text without what moves a terminal's cursor or changes its colours: names come from files and
    clusters.
    """
    return "".join(c if c.isprintable() else "�" for c in text)


def escaped(json: str) -> str:
    """Return a JSON text in which what `printable` leaves out is written as escapes, as in texts only they can be
    there.
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def visible(page: str) -> str:
    """Return a page without characters that a terminal or a browser obeys instead of showing them."""
    return _HIDDEN.sub("�", page)


def folded(command: str, width: int) -> Iterator[str]:
    """Yield the lines of a shell command that is wider than the terminal, so that it still can be copied and run.

    It is broken between words, with a backslash, and after the commas of a JSON text in quotes, where the end of a line
    means nothing. What can be broken nowhere stays as it is, wider than the terminal.
    """
    line = ""
    for piece, glue in _pieces(command):
        if line and len(line) + len(piece) + len(glue) + 2 > width:
            yield line if line.endswith(",") else f"{line.rstrip()} \\"
            line = "  "
        line += piece + glue
    yield line.rstrip()


def _pieces(command: str) -> Iterator[tuple[str, str]]:
    """Yield (text, what follows it on the same line)."""
    for word in _SHELL_WORD.findall(command):
        plain = word.startswith(("'[", "'{")) and _QUOTE not in word
        parts = _JSON_PIECE.findall(word)[:-1] if plain else [word]
        yield from ((part, "") for part in parts[:-1])
        yield parts[-1], " "


def count(number: int, what: str) -> str:
    """Return `1 node`, `4,980 nodes`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def some(names: Sequence[str], most: int) -> str:
    """Return the first few names, and the number of others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def spaced(plugin: str) -> str:
    """Return a plugin's name that can be wrapped."""
    return _WORDS.sub(" ", plugin)


def asks(answer: Explanation) -> str:
    """Return the requests of the pod, in words."""
    return f"asks for {asked(answer.pod.requests)}"


def asked(requests: Mapping[str, object], claims: Mapping[str, str] | None = None) -> str:
    """Return resources, and claims for devices, that a pod asks for."""
    parts = [f"{amount} {name}" for name, amount in requests.items()]
    parts += [f"claim {name} ({what})" for name, what in (claims or {}).items()]
    return ", ".join(parts) or "nothing"


def headline(answer: Explanation) -> str:
    """Return the answer in one line."""
    pod = f"{answer.pod.namespace}/{answer.pod.name}"
    total, feasible = answer.nodes.total, answer.nodes.feasible
    unknown = undecided(answer)
    if unknown:
        return f"{pod} can't be decided: {unknown}"
    match answer.outcome:
        case "fits":
            choice = answer.choice
            if choice is not None and choice.node is not None:
                which = f"the best of {feasible:,} possible nodes" if feasible > 1 else "the only possible node"
                return f"{pod} goes to {choice.node}, {which} ({total:,} in all)"
            best = len(choice.best) if choice is not None else feasible
            return f"{pod} goes to one of {best:,} equally good nodes ({feasible:,} possible, {total:,} in all)"
        case "gated":
            return f"{pod} is not tried: {answer.cause}" if answer.cause else f"{pod} waits for its scheduling gates"
        case "unclaimed":
            return f"{pod} waits for the scheduler {answer.pod.scheduler_name}, and nobody seems to run it"
        case "terminating":
            return f"{pod} is being deleted, so no scheduler places it"
        case "failed":
            return f"{pod} could not be decided: a plugin failed"
    if not total:
        return f"{pod} fits nowhere: there are no nodes"
    where = f"fits on none of {count(total, 'node')}" if total > 1 else "does not fit on the only node"
    return f"{pod} {where}{f': {answer.cause}' if answer.cause else ''}"


def possible(answer: Explanation) -> str:
    """Return the condition under which the nodes of the answer are possible."""
    if answer.outcome == "gated":
        return "could go once it is tried" if answer.cause else "could go without its gates"
    return "could go if its scheduler ran" if answer.outcome == "unclaimed" else "can go"


def moved(answer: Explanation) -> str:
    """Return a note on a pod that is on a node already; empty for a pending pod."""
    node = answer.pod.node
    if node is None:
        return ""
    same = answer.choice is not None and node in answer.choice.best
    return (
        f"it is on {node} now; this is where it would go if it were scheduled again{': the same node' if same else ''}"
    )


def preempts(answer: Explanation) -> str:
    """Whom the scheduler would remove for this pod, empty when nobody."""
    if answer.preemption is None:
        return ""
    victims = answer.preemption.victims
    return f"the scheduler would make room on {answer.preemption.node} by preempting {some(victims, 4)}"


def common_ending(names: Sequence[str]) -> str:
    """Return the domain that all names end in, empty when they share none or are too few to tell."""
    endings = {name[name.find(".") :] if "." in name else "" for name in names}
    return endings.pop() if len(endings) == 1 and len(names) > 1 else ""


def leads_to(remedy: Remedy) -> str:
    """Return the nodes to which the pod could go after a change."""
    if any(isinstance(change, AddNode) for change in remedy.changes):
        return "the new node" if len(remedy.nodes) == 1 else count(len(remedy.nodes), "node")
    if len(remedy.nodes) == 1:
        return remedy.nodes[0]
    return f"{count(len(remedy.nodes), 'node')}: {some(remedy.nodes, 3)}"


def besides(remedy: Remedy) -> str:
    """Return the effects of a change on other pods, in words; empty: none."""
    effects = remedy.effects
    if effects is None:
        return ""
    said = [
        f"{pod} then goes to {node}" if node else f"{pod} finds no other node" for pod, node in effects.moved.items()
    ]
    said += [f"an eviction of {pod} is refused now: {why}" for pod, why in effects.refused.items()]
    if effects.landed:
        said.append(f"{_others(effects.lands, effects.landed)} would get a node too")
    if effects.loses:
        said.append(f"{some(effects.loses, 3)} would find none any more")
    if effects.unmade:
        said.append(f"nobody makes {some(effects.unmade, 3)} again")
    if effects.relies:
        said.append(f"{some(effects.relies, 3)} asks for the label as it is and could not come back to the node")
    return "; ".join(said)


def _others(names: Sequence[str], number: int) -> str:
    return f"{', '.join(names)} and {number - len(names):,} more" if number > len(names) else ", ".join(names)


def telling(answer: Explanation) -> tuple[list[str], list[str]]:
    """Scoring plugins whose points differ between nodes, and those that give all nodes the same."""
    differ: list[str] = []
    same: list[str] = []
    for scorer in answer.scorers:
        points = {node.scores[scorer.plugin].weighted for node in answer.feasible}
        (differ if len(points) > 1 else same).append(scorer.plugin)
    return differ, same


def same_for_all(answer: Explanation, plugins: Sequence[str]) -> str:
    """Return the points that every node gets, in words."""
    first: FeasibleNode = answer.feasible[0]
    return ", ".join(f"{plugin} {first.scores[plugin].weighted}" for plugin in plugins)
