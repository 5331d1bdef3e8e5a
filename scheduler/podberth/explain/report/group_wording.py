"""Why a pod group starts or not, in words: for the terminal and for the page."""

from podberth.explain.gangs.answer import DomainRoom, GroupExplanation
from podberth.explain.report.wording import count


def headline(answer: GroupExplanation) -> str:
    """The answer in one line."""
    group = answer.group
    name = f"{group.namespace}/{group.name}"
    match answer.outcome:
        case "runs":
            return f"{name} runs: {count(group.running, 'pod')}"
        case "starts":
            rest = f"; {group.waiting - answer.fits:,} find none" if answer.fits < group.waiting else ""
            return f"{name} can start: {_of(answer)} find a node{rest}"
        case "unclaimed":
            return f"{name} fits, and waits for a scheduler that nobody seems to run"
        case "held":
            return f"{name} is not tried yet: {answer.cause}"
        case "failed":
            return f"{name} could not be decided: {answer.cause}"
    where = f" in one {group.topology_key}" if answer.domain else ""
    if not answer.domains and answer.cause:
        return f"{name} does not start: {answer.cause}"
    return f"{name} does not start: {_of(answer)} fit{where}"


def _of(answer: GroupExplanation) -> str:
    group = answer.group
    lacking = max(group.needed - group.running, 1)
    return f"{answer.fits:,} of {max(group.waiting, lacking):,} pods"


def facts(answer: GroupExplanation) -> str:
    """Return what kind of group it is."""
    group = answer.group
    kind = "the policy basic" if group.min_count is None else f"{count(group.min_count, 'pod')} start together"
    parts = [kind, f"{group.waiting:,} wait", f"{group.running:,} run", f"priority {group.priority}"]
    if group.topology_key:
        parts.append(f"asks for one {group.topology_key}")
    return " · ".join((*parts, f"profile {answer.profile}"))


def stop(answer: GroupExplanation) -> str:
    """Return which pod stops it, and why."""
    if answer.stopped is None:
        return ""
    more = answer.stopped.alike - 1
    alike = f" (and {count(more, 'more pod')} like it)" if more else ""
    return f"{answer.stopped.pod.partition('/')[2]} stops it{alike}: {answer.stopped.cause}"


def limits(domain: DomainRoom) -> str:
    """Return what keeps the next pod out of a domain."""
    return ", ".join(f"{limit.reason} ({count(limit.nodes, 'node')})" for limit in domain.limits)


def then(answer: GroupExplanation, fits: int) -> str:
    """Return what a change leads to."""
    return f"then {fits:,} of {answer.group.waiting:,} find a node"
